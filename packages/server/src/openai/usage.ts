import type { Log } from "@palimpsest/directives";
import type { Report } from "@palimpsest/engine";
import type { TokenizerPort } from "../service.ts";
import type { Folded } from "./prepare.ts";

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number; repos_tokens?: number; drop_skipped_tokens?: number };
}

/** Usage as OpenAI has it; a context request also gets AKV's two counts, zeros included. */
export function usageOf(report: Report, completionTokens: number, context: boolean): Usage {
  const details = { cached_tokens: report.cached_tokens };
  return {
    prompt_tokens: report.prompt_tokens,
    completion_tokens: completionTokens,
    total_tokens: report.prompt_tokens + completionTokens,
    prompt_tokens_details: context ? { ...details, repos_tokens: report.repositioned_tokens, drop_skipped_tokens: report.skipped_tokens } : details,
  };
}

/** The report of an answer or a plan: counts, what became of each directive, and where the cached prefix ended, in the request's words. */
export function reportBody(report: Report, { log }: Folded, tokenizer: TokenizerPort): object {
  const { miss, ...counts } = report;
  return { ...counts, miss: miss && { ...miss, ...placeOf(miss.at_token, log, tokenizer) } };
}

/** The message that a token of the log belongs to, and its text. */
function placeOf(token: number, { tokens, chat }: Log, tokenizer: TokenizerPort): object {
  const id = tokens[token];
  const message = chat?.owners[token];
  return { ...(message === undefined ? {} : { message }), ...(id === undefined ? {} : { text: tokenizer.decode([id]) }) };
}
