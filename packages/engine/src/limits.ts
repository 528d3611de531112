import { EngineError } from "./errors.ts";

/** Every bound of an engine. Each is at least 1; reaching one never loses a request that was accepted. */
export interface EngineLimits {
  /** Rows of one forward step. */
  rowsPerStepMax: number;
  /** Rows of one forward step in which somebody decodes: bounds what a long prefill adds to the others' time per token. */
  rowsBesideDecodeMax: number;
  /** Rows of one forward step whose logits are computed. */
  outputsPerStepMax: number;
  /** Requests that run at a time. */
  runningMax: number;
  /** Requests that wait; one more is refused with `queue_full`. */
  waitingMax: number;
  /** Requests that may be admitted in front of one that waits for pages; then nothing passes it any more. */
  bypassesMax: number;
  /** Waiting requests that are looked at, from the first in line. */
  lookaheadMax: number;
  /** A request waits for the prompt of another that runs when they agree in so many more cells than the tree has. */
  shareCellsMin: number;
  /** Milliseconds that a request waits at most for cells from a tier; then they are computed. */
  restoreMsMax: number;
  /** Milliseconds that `dispose` spends at most on copying cells to a tier that keeps them for a restart. */
  persistMsMax: number;
  /** Nodes of the prefix tree. */
  treeNodesMax: number;
}

export const ENGINE_LIMITS: EngineLimits = {
  rowsPerStepMax: 512,
  rowsBesideDecodeMax: 128,
  outputsPerStepMax: 256,
  runningMax: 64,
  waitingMax: 1024,
  bypassesMax: 32,
  lookaheadMax: 16,
  shareCellsMin: 64,
  restoreMsMax: 5_000,
  persistMsMax: 20_000,
  treeNodesMax: 1 << 20,
};

/** The defaults with `given` in their place. */
export function limitsOf(given: Partial<EngineLimits> = {}): EngineLimits {
  const limits = { ...ENGINE_LIMITS, ...given };
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in ENGINE_LIMITS)) throw new EngineError("limit_invalid", `there is no limit "${name}"`, `limits.${name}`);
    if (!Number.isInteger(value) || value < 1) throw new EngineError("limit_invalid", `${name} must be an integer of at least 1, not ${value}`, `limits.${name}`);
  }
  return limits;
}
