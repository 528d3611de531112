import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import type { Piece } from "./answer.ts";
import { readBody } from "./body.ts";
import { completionLogprobs, TextOffsets } from "./logprobs.ts";
import { answerHead, completionLog, isContextRequest, promptTokens, requireModel } from "./prepare.ts";
import { prepared, type PreparedRequest } from "./reader.ts";
import { bodySpec, completionSchema, type CompletionBody } from "./schema.ts";
import { refuseScratch } from "./scratch.ts";
import { openAIShape, type Choices } from "./shape.ts";
import { refuseUnbuiltCompletion } from "./unbuilt.ts";

/** OpenAI's default for completions. */
const MAX_TOKENS = 16;

export function completionReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(completionSchema(limits));
  return async (service: Service, caller: Caller, body: unknown, signal?: AbortSignal): Promise<PreparedRequest> => {
    const { value, raw, warnings } = readBody(spec, body, limits);
    refuseUnbuiltCompletion(value);
    refuseScratch(value);
    requireModel(service, value.model);
    return prepared(service, caller, {
      body: value,
      raw,
      log: completionLog(service, await promptTokens(service, value.prompt, { signal, mustFit: !isContextRequest(raw) })),
      dialect: [],
      shape: openAIShape(completionChoices(service, value)),
      calls: null,
      maxTokens: value.max_tokens ?? MAX_TOKENS,
      logprobs: value.logprobs ?? -1,
      echo: value.echo === true,
      warnings,
    });
  };
}

function completionChoices(service: Service, body: CompletionBody): Choices {
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
    head: answerHead(service, "cmpl", "text_completion"),
    wholeName: "text_completion",
    piece: (piece) => [choice([piece], null)],
    finish: ({ reason }) => choice([], reason),
    whole: (all, { reason }) => choice(all, reason),
  };
}
