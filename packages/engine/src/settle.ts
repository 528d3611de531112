import type { StepResult } from "@palimpsest/kernels-cuda";
import { SAMPLED, type Prepared } from "./prepare.ts";
import type { Sequence } from "./sequence.ts";
import type { TokenLogprob } from "./types.ts";

/** What a step brought to one sequence. */
export interface Gain {
  sequence: Sequence;
  /** The token that was sampled. */
  token: number;
  logprob: TokenLogprob | undefined;
}

/**
 * Enters what a step computed into the sequences: cells are published, rows counted, prompt scores kept. Answers the sampled tokens, in
 * the order of the entries. A sequence that has left meanwhile keeps its cells: they are as good as any.
 */
export function enter({ entries, outputsEnd, purposes }: Prepared, result: StepResult, step: number): Gain[] {
  const gains: Gain[] = [];
  const outputs = new Outputs(result);
  entries.forEach(({ sequence, work, decode }, index) => {
    const { holding, found } = sequence.admission!;
    if (decode) {
      sequence.reads.ranOpen();
      sequence.ranTo = work.to;
    } else {
      sequence.reads.ran(work, found.known);
      if (sequence.promptStep !== step) sequence.promptSteps++;
      sequence.promptStep = step;
      if (work.store) holding.publish(sequence.path(), work.from, work.to);
    }
    const top = Math.max(0, sequence.request.logprobs);
    for (; outputs.next < outputsEnd[index]!; ) {
      const purpose = purposes[outputs.next]!;
      const wanted = sequence.request.logprobs >= 0;
      const id = result.ids[outputs.next]!;
      const logprob = outputs.take(top, wanted);
      if (purpose === SAMPLED) gains.push({ sequence, token: id, logprob });
      else sequence.scores![purpose] = logprob!;
    }
  });
  for (const { sequence } of entries) sequence.skipHidden();
  return gains;
}

/** Reads the outputs of a step one after another: their alternatives lie flat, as many as each asked for. */
class Outputs {
  next = 0;
  readonly #result: StepResult;
  #alternatives = 0;

  constructor(result: StepResult) {
    this.#result = result;
  }

  take(top: number, wanted: boolean): TokenLogprob | undefined {
    const { ids, logprobs, topIds, topLogprobs } = this.#result;
    const index = this.next++;
    const from = this.#alternatives;
    this.#alternatives += top;
    if (!wanted) return undefined;
    const best = Array.from({ length: top }, (_, i) => ({ id: topIds[from + i]!, logprob: topLogprobs[from + i]! }));
    return { id: ids[index]!, logprob: logprobs[index]!, top: best };
  }
}
