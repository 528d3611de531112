import type { Cache } from "./cache.ts";
import type { EngineLimits } from "./limits.ts";
import { rowsOf } from "./planner.ts";
import { missOf, reportOf } from "./report.ts";
import type { Retainer } from "./retention.ts";
import { planFor } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";
import type { Report } from "./types.ts";

/** The report that a request would end with if it ran alone now, and said as much as it may. */
export function predict(sequence: Sequence, cache: Cache, retainer: Retainer, limits: EngineLimits): Report {
  const match = cache.match(sequence.namespace, sequence.path());
  try {
    const { work, found } = planFor(sequence, match);
    for (const part of work) sequence.reads.ran(part, found.known);
    if (sequence.maxTokens > 1) sequence.reads.ranOpen();
    const rows = sequence.request.echo ? Math.min(limits.rowsPerStepMax, limits.outputsPerStepMax) : limits.rowsPerStepMax;
    const refused = retainer.foresee(sequence, cache.tree.pinnedCells(sequence.namespace), cache.tree.limits.pinnedCellsMax);
    return reportOf(sequence, Math.ceil(rowsOf(work) / rows), missOf(sequence.fold, found, work), refused);
  } finally {
    match.release();
  }
}
