/**
 * The step call: the one border between what decides (TypeScript) and what computes (Rust).
 *
 * Letters: R rows, S segments, N runs, O outputs, G cell groups (layers whose cells live and die together: 1 = full attention or
 * MLA latent, 2 = full + window). Arrays are flat; every one is checked whole before a byte of a cell is written. What is out of
 * range, of the wrong length, or stored twice is a `KernelError` of kind `invalid`, and nothing was written.
 */
export interface Step {
  /** R: token id, or −1−j: what output j of the previous step sampled. */
  token: Int32Array;
  /** R: birth position, by which the row's query and its new key are rotated. */
  position: Int32Array;
  /** G·R: slot (page · pageSize + offset) of the row's own cell in each group; group-major: `cell[g·R + r]`. */
  cell: Int32Array;
  /** R: 1 = the row's keys and values are written before any attention of the layer; 0 = resident already, the row is only asked. */
  store: Uint8Array;
  /** S+1: rows of a segment. Rows of one segment are causal among themselves in row order, after the whole view. */
  rowOf: Int32Array;
  /** G·S+1: runs of (group, segment), group-major, in order of summation. A view may name cells that this step stores. */
  viewOf: Int32Array;
  /** N: index into `pages` of the run's first page. */
  runPage: Int32Array;
  /** N: slot of the run's first cell inside that page. A run goes on into the following entries of `pages`. */
  runFirst: Int32Array;
  /** N: cells in the run (≥ 1). */
  runLength: Int32Array;
  /** N: birth position of the run's first cell. Cell i was born at runBirth + i. */
  runBirth: Int32Array;
  /** N: current position of cell i = runBirth + i + runShift. */
  runShift: Int32Array;
  /** Page ids, concatenated over all runs. */
  pages: Int32Array;
  /** O: rows whose logits are wanted. */
  outRow: Int32Array;
  /** O: −1 = sample; otherwise this id is scored and returned. */
  outTarget: Int32Array;
  /** O: 0…20 alternatives wanted. */
  outTop: Uint8Array;
  /** O: index into `samplers`; unused (0) where outTarget ≥ 0. */
  outSampler: Int32Array;
  samplers: readonly Sampler[];
  /** O+1: entries of `biasId` / `biasValue` that belong to an output (logit_bias, penalties). Absent: none. */
  biasOf?: Int32Array;
  biasId?: Int32Array;
  biasValue?: Float32Array;
  /** O: index of a bitset of ceil(V / 32) words in `mask`, −1 = none. Absent: none. */
  maskOf?: Int32Array;
  mask?: Uint32Array;
  /** O·V: receives the raw logits. For tests. */
  logits?: Float32Array;
}

/** How one output is drawn. The draw is a pure function of (logits, sampler), whatever else is in the batch. */
export interface Sampler {
  /** 0 = greedy: the highest logit, the lowest id among equals. */
  temperature: number;
  /** 0 = off. */
  topK: number;
  /** 1 = off. */
  topP: number;
  /** 0 = off. */
  minP: number;
  /** 64 bits. */
  seed: bigint;
  /** Number of the draw under this seed: the index of the generated token in its answer. */
  draw: number;
}

export interface StepResult {
  /** O: the sampled id, or the target. */
  ids: Int32Array;
  /** O: natural log-probability of that id under the softmax of the raw logits. */
  logprobs: Float32Array;
  /** Sum of outTop: ids of the alternatives, best first, output after output. */
  topIds: Int32Array;
  topLogprobs: Float32Array;
  counts: StepCounts;
}

/** What a step did, counted and not estimated. */
export interface StepCounts {
  rows: number;
  /** Cells stored (once for all layers). */
  cellsStored: number;
  /** Cells named by the views, summed over segments. */
  cellsRead: number;
  /** Distinct (segment, shift) pairs with a shift other than 0: extra rotations of queries. */
  rotations: number;
  /** Bytes of cells that were moved. Always 0: a reposition is metadata. */
  bytesMoved: number;
  /** Bytes of packed weights that products read: each matrix once a product. Scripted models have none. */
  weightBytes?: number;
  /** Multiply-adds of the products with weights. Scripted models have none. */
  multiplications?: number;
  /** Pages that the runs of the step name, summed over runs. Scripted models have none. */
  pagesRead?: number;
}
