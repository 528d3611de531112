import { EngineError } from "./errors.ts";
import type { GenerateRequest } from "./types.ts";

/** Throws `request_invalid` for what no engine can compute. */
export function refuse(request: GenerateRequest, vocabularySize: number): void {
  const { fold, maxTokens, logprobs, stopTokens } = request;
  if (fold.tokens.length === 0 || fold.lastCell < 0) throw new EngineError("request_invalid", "a prompt has at least one token", "fold");
  if (!Number.isInteger(maxTokens) || maxTokens < 0) throw new EngineError("request_invalid", `a number of tokens was expected, not ${maxTokens}`, "maxTokens");
  if (!Number.isInteger(logprobs) || logprobs < -1 || logprobs > 20) {
    throw new EngineError("request_invalid", `0 to 20 alternatives were expected, or -1 for none, not ${logprobs}`, "logprobs");
  }
  for (const [param, ids] of [["fold.tokens", fold.tokens], ["stopTokens", stopTokens]] as const) {
    for (const id of ids) if (!(id >= 0 && id < vocabularySize)) throw new EngineError("request_invalid", `${id} is no token: ids are below ${vocabularySize}`, param);
  }
}

/** As many tokens as were asked for, or as the context has positions for. A token of the answer needs one, even if it never runs. */
export function maxTokensOf({ fold, maxTokens }: GenerateRequest, contextLength: number): number {
  const room = contextLength - fold.nextPosition;
  if (maxTokens > 0 && room < 1) {
    throw new EngineError("context_length_exceeded", `the prompt ends at position ${fold.nextPosition}, which leaves no position below ${contextLength}`, "fold");
  }
  return Math.min(maxTokens, Math.max(0, room));
}
