import type { Fold } from "@palimpsest/directives";
import type { Service } from "../service.ts";
import type { PreparedRequest } from "./reader.ts";
import { reportBody } from "./usage.ts";

/**
 * The report that the request would get, from what is cached now, and its cost. Nothing is computed and nothing is kept. The report
 * stands at the top level and again under `cache`, where answers have it.
 */
export function planBody(service: Service, { generate, folded, answer }: PreparedRequest): object {
  const counts = service.engine.plan(generate);
  const report = reportBody(counts, folded, service.tokenizer);
  return {
    object: "directives.plan",
    model: service.id,
    ...report,
    cost: { computed_tokens: counts.computed_tokens, forward_steps: counts.forward_steps, text_edit_tokens: textEditTokens(folded.fold) },
    cache: report,
    ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}),
  };
}

/** Visible cells behind the first one that was ever hidden: what an edit of the text would make a prefix cache compute again. */
function textEditTokens(fold: Fold): number {
  const first = fold.events.flatMap((event) => event.hidden.map(([start]) => start)).reduce((least, start) => Math.min(least, start), Infinity);
  const open = fold.births.at(-1);
  if (first === Infinity || open === undefined) return 0;
  const seen = open.view.reduce((sum, span) => sum + Math.max(0, span.cell + span.length - Math.max(span.cell, first)), 0);
  return seen + open.length;
}
