import type { GenerateRequest } from "@palimpsest/engine";
import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import type { Piece } from "./answer.ts";
import { bodySpec, completionSchema, type CompletionBody } from "./schema.ts";
import { readBody } from "./body.ts";
import { completionLogprobs, TextOffsets } from "./logprobs.ts";
import * as prepare from "./prepare.ts";
import type { AnswerShape, Answerable } from "./respond.ts";
import { refuseUnbuiltCompletion } from "./unbuilt.ts";

/** OpenAI's default for completions. */
const MAX_TOKENS = 16;

/** A completions request, ready to be computed or planned. */
export interface PreparedRequest {
  generate: GenerateRequest;
  folded: prepare.Folded;
  answer: Answerable;
}

export function completionReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(completionSchema(limits));
  return (service: Service, caller: Caller, body: unknown): PreparedRequest => {
    const { value, raw, warnings } = readBody(spec, body, limits);
    refuseUnbuiltCompletion(value);
    prepare.requireModel(service, value.model);
    prepare.requireStream(value);
    const tokens = prepare.promptTokens(service, value.prompt);
    const folded = prepare.foldBody(prepare.completionLog(service, tokens), raw, value.cache?.compat ?? undefined);
    const generate = generateRequest(service, caller, value, folded);
    return { generate, folded, answer: answerable(service, value, folded, generate, warnings) };
  };
}

function generateRequest(service: Service, caller: Caller, body: CompletionBody, folded: prepare.Folded): GenerateRequest {
  return {
    fold: folded.fold,
    promptTokens: folded.log.tokens.length,
    maxTokens: prepare.tokensAllowed(service, folded, body.max_tokens ?? MAX_TOKENS),
    sampling: prepare.samplingOf(body),
    logprobs: body.logprobs ?? -1,
    echo: body.echo === true,
    stopTokens: prepare.stopTokensOf(service, body),
    namespace: caller.namespace,
  };
}

function answerable(service: Service, body: CompletionBody, folded: prepare.Folded, generate: GenerateRequest, warnings: string[]): Answerable {
  const ids = folded.log.tokens;
  return {
    shape: completionShape(service, body),
    start: (signal) => service.engine.generate({ ...generate, signal }),
    assembly: service.tokenizer.assembly(prepare.stopsOf(body)),
    echo: body.echo === true ? { text: service.tokenizer.decode(ids), ids } : null,
    promptIds: ids,
    folded,
    tokenizer: service.tokenizer,
    report: body.cache?.report === true,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    returnTokenIds: body.return_token_ids === true,
    warnings,
  };
}

function completionShape(service: Service, body: CompletionBody): AnswerShape {
  const wanted = typeof body.logprobs === "number";
  const offsets = new TextOffsets(service.tokenizer);
  const choice = (list: readonly Piece[], reason: string | null) => ({
    index: 0,
    text: list.map((piece) => piece.text).join(""),
    logprobs: wanted ? completionLogprobs(list.flatMap((piece) => piece.tokens), service.tokenizer, offsets) : null,
    finish_reason: reason,
    ...(body.return_token_ids === true ? { token_ids: list.flatMap((piece) => (piece.generated ? piece.tokens.map((token) => token.id) : [])) } : {}),
  });
  return {
    head: prepare.answerHead(service, "cmpl", "text_completion"),
    wholeName: "text_completion",
    piece: (piece) => [choice([piece], null)],
    finish: (reason) => [choice([], reason)],
    whole: (all, reason) => [choice(all, reason)],
  };
}
