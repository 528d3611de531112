import type { GenerateRequest } from "@palimpsest/engine";
import { ServerError } from "../errors.ts";
import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import type { Piece } from "./answer.ts";
import { readBody } from "./body.ts";
import type { PreparedRequest } from "./completions.ts";
import { chatLogprobs } from "./logprobs.ts";
import * as prepare from "./prepare.ts";
import type { AnswerShape, Answerable } from "./respond.ts";
import { bodySpec, chatSchema, type ChatBody } from "./schema.ts";
import { refuseUnbuiltChat } from "./unbuilt.ts";

export function chatReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(chatSchema(limits));
  return (service: Service, caller: Caller, body: unknown): PreparedRequest => {
    const { value, raw, warnings } = readBody(spec, body, limits);
    refuseUnbuiltChat(value);
    prepare.requireModel(service, value.model);
    prepare.requireStream(value);
    requireLogprobs(value);
    const { log, warnings: unseen } = prepare.chatLog(service, value);
    const folded = prepare.foldBody(log, raw, value.cache?.compat ?? undefined);
    const generate = generateRequest(service, caller, value, folded);
    return { generate, folded, answer: answerable(service, value, folded, generate, [...warnings, ...unseen]) };
  };
}

function requireLogprobs(body: ChatBody): void {
  if (typeof body.top_logprobs === "number" && body.logprobs !== true) {
    throw new ServerError("field_invalid", 'top_logprobs: only with "logprobs": true', { param: "top_logprobs" });
  }
}

function maxTokensOf(body: ChatBody): number | null {
  const { max_tokens: old, max_completion_tokens: current } = body;
  if (typeof old === "number" && typeof current === "number" && old !== current) {
    throw new ServerError("field_invalid", `max_tokens: ${old} contradicts max_completion_tokens: ${current}; give one of them`, { param: "max_tokens" });
  }
  return current ?? old ?? null;
}

function generateRequest(service: Service, caller: Caller, body: ChatBody, folded: prepare.Folded): GenerateRequest {
  return {
    fold: folded.fold,
    promptTokens: folded.log.tokens.length,
    maxTokens: prepare.tokensAllowed(service, folded, maxTokensOf(body)),
    sampling: prepare.samplingOf(body),
    logprobs: body.logprobs === true ? (body.top_logprobs ?? 0) : -1,
    echo: false,
    stopTokens: prepare.stopTokensOf(service, body),
    namespace: caller.namespace,
  };
}

function answerable(service: Service, body: ChatBody, folded: prepare.Folded, generate: GenerateRequest, warnings: string[]): Answerable {
  return {
    shape: chatShape(service, body),
    start: (signal) => service.engine.generate({ ...generate, signal }),
    assembly: service.tokenizer.assembly(prepare.stopsOf(body)),
    echo: null,
    promptIds: folded.log.tokens,
    folded,
    tokenizer: service.tokenizer,
    report: body.cache?.report === true,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    returnTokenIds: body.return_token_ids === true,
    warnings,
  };
}

/** The role comes once, with the first delta. */
const role = (first: boolean) => (first ? { role: "assistant" } : {});

function chatShape(service: Service, body: ChatBody): AnswerShape {
  const common = (list: readonly Piece[], reason: string | null) => ({
    index: 0,
    logprobs: body.logprobs === true ? { content: chatLogprobs(list.flatMap((piece) => piece.tokens), service.tokenizer), refusal: null } : null,
    finish_reason: reason,
    ...(body.return_token_ids === true ? { token_ids: list.flatMap((piece) => piece.tokens.map((token) => token.id)) } : {}),
  });
  return {
    head: prepare.answerHead(service, "chatcmpl", "chat.completion.chunk"),
    wholeName: "chat.completion",
    piece: (piece, first) => [{ ...common([piece], null), delta: { ...role(first), content: piece.text } }],
    finish: (reason, first) => [{ ...common([], reason), delta: first ? { role: "assistant", content: "" } : {} }],
    whole: (all, reason) => [{ ...common(all, reason), message: { role: "assistant", content: all.map((piece) => piece.text).join(""), refusal: null } }],
  };
}
