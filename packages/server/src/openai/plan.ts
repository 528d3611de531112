import type { Service } from "../service.ts";
import type { PreparedRequest } from "./completions.ts";
import { reportBody } from "./usage.ts";

/**
 * The report that the request would get, from what is cached now, and its cost. Nothing is computed and nothing is kept. The report
 * stands at the top level and again under `cache`, where answers have it.
 */
export function planBody(service: Service, { generate, folded, answer }: PreparedRequest): object {
  const report = reportBody(service.engine.plan(generate), folded, service.tokenizer);
  return { object: "directives.plan", model: service.id, ...report, cost: costOf(service, report as CostInput, folded), cache: report, ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}) };
}

interface CostInput {
  computed_tokens: number;
  forward_steps: number;
}

/** Tokens to compute by directives, and by sending edited text to a server that can only prefill what follows the first edit. */
function costOf(_service: Service, report: CostInput, { fold }: PreparedRequest["folded"]): object {
  return {
    computed_tokens: report.computed_tokens,
    forward_steps: report.forward_steps,
    text_edit_tokens: textEditTokens(fold),
  };
}

/** Visible cells behind the first one that was ever hidden: what an edit of the text makes a prefix cache compute again. */
function textEditTokens(fold: PreparedRequest["folded"]["fold"]): number {
  const first = Math.min(...fold.events.flatMap((event) => event.hidden.map(([start]) => start)));
  if (!Number.isFinite(first)) return 0;
  const last = fold.births.at(-1);
  if (last === undefined) return 0;
  const behind = last.view.reduce((sum, span) => sum + Math.max(0, span.cell + span.length - Math.max(span.cell, first)), 0);
  return behind + last.length;
}
