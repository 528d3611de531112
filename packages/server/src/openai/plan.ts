import type { Service } from "../service.ts";
import { compare, ratesOf } from "./costs.ts";
import type { PreparedRequest } from "./reader.ts";
import { reportBody } from "./usage.ts";

/**
 * The report that the request would get, from what is cached now, and its cost. Nothing is computed and nothing is kept. The report
 * stands at the top level, each directive with its own cost, and again under `cache`, as answers have it.
 */
export function planBody(service: Service, { generate, folded, answer }: PreparedRequest): object {
  const counts = service.engine.plan(generate);
  const report = reportBody(counts, folded, service.tokenizer);
  const { plan, price, textEdit } = compare(service, generate, folded, counts);
  const rates = ratesOf(service);
  return {
    object: "directives.plan",
    model: service.id,
    ...report,
    directives: plan.directives,
    cost: { ...price, text_edit_tokens: textEdit.computed_tokens, text_edit: textEdit },
    rates: { prefill_tokens_per_second: rates?.prefillTokensPerSecond ?? null, step_seconds: rates?.stepSeconds ?? null },
    cache: report,
    ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}),
  };
}
