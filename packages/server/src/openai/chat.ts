import { ServerError } from "../errors.ts";
import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import { akvRequest } from "./akv.ts";
import type { Ending, Piece } from "./answer.ts";
import { readBody } from "./body.ts";
import { chatLogprobs } from "./logprobs.ts";
import { answerHead, chatLog, isContextRequest, requireModel } from "./prepare.ts";
import { prepared, type PreparedRequest } from "./reader.ts";
import { bodySpec, chatSchema, type ChatBody } from "./schema.ts";
import { scratchDirectives, scratchesThinking, thinkingIn } from "./scratch.ts";
import { openAIShape, type Choices } from "./shape.ts";
import { ToolCallReader, type AnsweredCall } from "./tool-calls.ts";
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
      shape: openAIShape(chatChoices(service, value)),
      calls: callReader(service, toolNames(value), value.tool_choice),
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

/** Whether calls in an answer are read: the request has tools, and the model's template writes calls in a form that is known. */
export function callReader(service: Service, tools: readonly string[], choice: unknown): ToolCallReader | null {
  const wanted = tools.length > 0 && choice !== "none";
  return wanted && service.chat?.capabilities.toolCallFormat === "hermes" ? new ToolCallReader(tools) : null;
}

const toolNames = ({ tools }: ChatBody) => (tools ?? []).flatMap((tool) => (tool.type === "function" ? [tool.function.name] : []));

/** The role comes once, with the first delta. */
const role = (first: boolean) => (first ? { role: "assistant" } : {});

const callBody = ({ id, name, arguments: given }: AnsweredCall) => ({ id, type: "function", function: { name, arguments: given } });

/** A call as deltas: which tool it is of, then its arguments. */
const callDeltas = (call: AnsweredCall): object[] => [
  { tool_calls: [{ index: call.index, ...callBody({ ...call, arguments: "" }) }] },
  { tool_calls: [{ index: call.index, function: { arguments: call.arguments } }] },
];

/** An answer that ends with calls ended for their sake, unless it was cut off. */
const finishReason = ({ reason, calls }: Ending) => (reason === "stop" && calls > 0 ? "tool_calls" : reason);

function chatChoices(service: Service, body: ChatBody): Choices {
  const common = (list: readonly Piece[], reason: string | null) => ({
    index: 0,
    logprobs: body.logprobs === true ? { content: chatLogprobs(list.flatMap((piece) => piece.tokens), service.tokenizer), refusal: null } : null,
    finish_reason: reason,
    ...(body.return_token_ids === true ? { token_ids: list.flatMap((piece) => piece.tokens.map((token) => token.id)) } : {}),
  });
  return {
    head: answerHead(service, "chatcmpl", "chat.completion.chunk"),
    wholeName: "chat.completion",
    piece: (piece, first) => {
      const calls = piece.calls.flatMap(callDeltas);
      const deltas = piece.text === "" && calls.length > 0 ? calls : [{ content: piece.text }, ...calls];
      return deltas.map((delta, index) => Object.assign(common(index === 0 ? [piece] : [], null), { delta: Object.assign(role(first && index === 0), delta) }));
    },
    finish: (ending, first) => ({ ...common([], finishReason(ending)), delta: first ? { role: "assistant", content: "" } : {} }),
    whole: (all, ending) => {
      const text = all.map((piece) => piece.text).join("");
      const calls = all.flatMap((piece) => piece.calls).map(callBody);
      const message = { role: "assistant", content: calls.length > 0 && text === "" ? null : text, refusal: null };
      return { ...common(all, finishReason(ending)), message: calls.length > 0 ? { ...message, tool_calls: calls } : message };
    },
  };
}
