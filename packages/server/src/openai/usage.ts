import type { Outcome } from "@palimpsest/directives";
import type { Report } from "@palimpsest/engine";

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

/** The report of WIRE 4 in its documented order, with what became of each directive. */
export function reportBody(report: Report, outcomes: readonly Outcome[]): object {
  const { directives: _, miss, ...counts } = report;
  return { ...counts, directives: outcomes, miss };
}
