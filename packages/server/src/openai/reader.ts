import type { Directive, Log } from "@palimpsest/directives";
import type { GenerateRequest } from "@palimpsest/engine";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import { cheapest } from "./costs.ts";
import * as prepare from "./prepare.ts";
import type { Answerable, AnswerShape } from "./respond.ts";
import type { ChatBody, CompletionBody } from "./schema.ts";
import type { ThinkingReader } from "./thinking.ts";
import type { ToolCallReader } from "./tool-calls.ts";

/** A request that was checked and folded, ready to be computed or planned. */
export interface PreparedRequest {
  generate: GenerateRequest;
  folded: prepare.Folded;
  answer: Answerable;
}

/** What an endpoint makes of its body; the rest is the same for all. */
export interface Wanted {
  body: Omit<CompletionBody, "prompt" | "logprobs"> | Omit<ChatBody, "messages" | "logprobs">;
  raw: Readonly<Record<string, unknown>>;
  log: Log;
  /** What a dialect of the endpoint asks for, beside the body's own `directives`. */
  dialect: readonly Directive[];
  /** Finds in the answer what later turns will not see. */
  scratchOf?: GenerateRequest["scratchOf"];
  shape: AnswerShape;
  /** Absent: reasoning stays text. */
  thinking?: ThinkingReader | undefined;
  /** Null: calls of tools stay text. */
  calls: ToolCallReader | null;
  /** Null: all there is room for. */
  maxTokens: number | null;
  /** Alternatives for each token; −1 = no log-probabilities. */
  logprobs: number;
  echo: boolean;
  warnings: readonly string[];
}

/** Folds the log by the body's directives and says what to compute and how to answer. Throws before anything has changed. */
export function prepared(service: Service, caller: Caller, { body, raw, log, dialect, scratchOf, shape, thinking, calls, maxTokens, logprobs, echo, warnings }: Wanted): PreparedRequest {
  prepare.requireStream(body);
  const given = prepare.foldBody(service, log, raw, body.cache?.compat ?? undefined, dialect);
  const asked: GenerateRequest = {
    fold: given.fold,
    promptTokens: log.tokens.length,
    maxTokens: prepare.tokensAllowed(service, given, maxTokens),
    sampling: prepare.samplingOf(body),
    logprobs,
    echo,
    stopTokens: prepare.stopTokensOf(service, body),
    namespace: caller.namespace,
    scratchOf,
  };
  const folded = isCheapest(body) ? cheapest(service, asked, given) : given;
  const generate: GenerateRequest = { ...asked, fold: folded.fold, maxTokens: prepare.tokensAllowed(service, folded, maxTokens) };
  const answer: Answerable = {
    shape,
    start: (signal) => service.engine.generate({ ...generate, signal }),
    assembly: service.tokenizer.assembly(prepare.stopsOf(body)),
    thinking: thinking ?? null,
    calls,
    echo: echo ? { text: service.tokenizer.decode(log.tokens), ids: log.tokens } : null,
    promptIds: log.tokens,
    folded,
    tokenizer: service.tokenizer,
    report: body.cache?.report === true,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    returnTokenIds: body.return_token_ids === true,
    warnings,
  };
  return { generate, folded, answer };
}

const isCheapest = ({ cost, cache }: Wanted["body"]): boolean => cost === "cheapest" || cache?.cost === "cheapest";
