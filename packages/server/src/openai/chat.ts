import { ServerError } from "../errors.ts";
import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import { akvRequest } from "./akv.ts";
import type { Piece } from "./answer.ts";
import { readBody } from "./body.ts";
import { chatLogprobs } from "./logprobs.ts";
import { answerHead, chatLog, isContextRequest, requireModel } from "./prepare.ts";
import { prepared, type PreparedRequest } from "./reader.ts";
import type { AnswerShape } from "./respond.ts";
import { bodySpec, chatSchema, type ChatBody } from "./schema.ts";
import { scratchDirectives, scratchesThinking, thinkingIn } from "./scratch.ts";
import { refuseUnbuiltChat } from "./unbuilt.ts";

export function chatReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(chatSchema(limits));
  return async (service: Service, caller: Caller, body: unknown, signal?: AbortSignal): Promise<PreparedRequest> => {
    const { value, raw, warnings } = readBody(spec, body, limits);
    refuseUnbuiltChat(value);
    requireModel(service, value.model);
    const { rendering, directives, warnings: noted } = akvRequest(raw, value, limits);
    // Its text stays, so that hiding it is an event and not another prompt.
    const shown = scratchesThinking(value) ? { ...rendering, keepReasoning: true } : rendering;
    const { log, warnings: unseen } = await chatLog(service, shown, { signal, mustFit: !isContextRequest(raw) });
    return prepared(service, caller, {
      body: value,
      raw,
      log,
      dialect: [...directives, ...scratchDirectives(value, log)],
      scratchOf: scratchesThinking(value) ? thinkingIn(service, log) : undefined,
      shape: chatShape(service, value),
      maxTokens: maxTokensOf(value),
      logprobs: alternativesOf(value),
      echo: false,
      warnings: [...warnings, ...noted, ...unseen],
    });
  };
}

function alternativesOf({ logprobs, top_logprobs: top }: ChatBody): number {
  if (typeof top === "number" && logprobs !== true) {
    throw new ServerError("field_invalid", 'top_logprobs: only with "logprobs": true', { param: "top_logprobs" });
  }
  return logprobs === true ? (top ?? 0) : -1;
}

/** Null: nothing was said. */
function maxTokensOf({ max_tokens: old, max_completion_tokens: current }: ChatBody): number | null {
  if (typeof old === "number" && typeof current === "number" && old !== current) {
    throw new ServerError("field_invalid", `max_tokens: ${old} contradicts max_completion_tokens: ${current}; give one of them`, { param: "max_tokens" });
  }
  return current ?? old ?? null;
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
    head: answerHead(service, "chatcmpl", "chat.completion.chunk"),
    wholeName: "chat.completion",
    piece: (piece, first) => [{ ...common([piece], null), delta: { ...role(first), content: piece.text } }],
    finish: (reason, first) => [{ ...common([], reason), delta: first ? { role: "assistant", content: "" } : {} }],
    whole: (all, reason) => [{ ...common(all, reason), message: { role: "assistant", content: all.map((piece) => piece.text).join(""), refusal: null } }],
  };
}
