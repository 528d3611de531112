import type { Step } from "@palimpsest/kernels-cuda";
import type { Entry } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";
import type { StepBuilder } from "./step-builder.ts";

/** A step, whose rows it has, and what its outputs are for. */
export interface Prepared {
  step: Step;
  entries: readonly Entry[];
  /** By entry: its outputs end before this one. */
  outputsEnd: readonly number[];
  /** By output: log token of the prompt that it scores, or `SAMPLED`. */
  purposes: readonly number[];
}

/** An output that draws the next token. */
export const SAMPLED = -1;

/** Writes the rows, views and outputs of all entries into one step, and gives the cells that it will store their places. */
export function prepare(entries: readonly Entry[], builder: StepBuilder): Prepared {
  builder.clear();
  const outputsEnd: number[] = [];
  const purposes: number[] = [];
  for (const { sequence, work, decode } of entries) {
    const { birth, from, to, store } = work;
    const { holding } = sequence.admission!;
    const { births, lastCell } = sequence.fold;
    if (store) holding.take(from, to);
    const row = builder.segment(sequence.tokens, births[birth]!, from, to, store, holding.table);
    const top = Math.max(0, sequence.request.logprobs);
    if (!decode && sequence.isScored) {
      for (let cell = from; cell < to; cell++) {
        const next = nextOfLog(sequence, birth, cell);
        const token = next < 0 ? -1 : sequence.rawTokenOf(next, birth);
        if (token < 0) continue;
        builder.score(row + cell - from, sequence.tokens[next]!, top);
        purposes.push(token);
      }
    }
    const last = decode ? from : lastCell;
    if (last >= from && last < to && sequence.maxTokens > 0) {
      sequence.sampler.draw = sequence.generated;
      builder.sample(row + last - from, top, sequence.sampler);
      purposes.push(SAMPLED);
    }
    outputsEnd.push(purposes.length);
  }
  return { step: builder.build(), entries, outputsEnd, purposes };
}

/** The cell whose token follows a cell's in the log; −1 behind the last, and behind cells that are not of the log. */
function nextOfLog({ fold: { births } }: Sequence, index: number, cell: number): number {
  const birth = births[index]!;
  if (birth.kind !== "log") return -1;
  if (cell + 1 < birth.cell + birth.length) return cell + 1;
  for (let next = index + 1; next < births.length; next++) if (births[next]!.kind === "log" && births[next]!.length > 0) return births[next]!.cell;
  return -1;
}
