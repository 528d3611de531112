import type { Runtime, Sampler, Step, StepCounts } from "@palimpsest/kernels-cuda";

export const GREEDY: Sampler = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 };

/** A stretch of cells of one stream: it lies from `slot` on in rising pages, was born at `birth`, and moved by `shift`. */
interface Stretch {
  slot: number;
  length: number;
  birth: number;
  shift: number;
}

/** New rows of one stream in a step. */
interface Rows {
  tokens: number[];
  position: number;
  slot: number;
  view: Stretch[];
}

/** Offsets of stretches of these lengths, and the end of the last. */
function ends(lengths: readonly number[]): Int32Array {
  const offsets = new Int32Array(lengths.length + 1);
  for (const [at, length] of lengths.entries()) offsets[at + 1] = (offsets[at] ?? 0) + length;
  return offsets;
}

/** Pages in which cells lie. */
export function pagesOf({ slot, length }: Pick<Stretch, "slot" | "length">, pageSize: number): number[] {
  const first = Math.floor(slot / pageSize);
  const last = Math.floor((slot + length - 1) / pageSize);
  const pages: number[] = [];
  for (let page = first; page <= last; page++) pages.push(page);
  return pages;
}

/** One step for rows of some streams; the logits of each stream's last row are wanted. */
function stepOf(streams: readonly Rows[], pageSize: number): Step {
  const rows = streams.reduce((sum, stream) => sum + stream.tokens.length, 0);
  const runs = streams.flatMap((stream) => stream.view);
  const pages = runs.map((run) => pagesOf(run, pageSize));
  const each = (value: (stream: Rows, i: number) => number) => Int32Array.from(streams.flatMap((stream) => stream.tokens.map((_, i) => value(stream, i))));
  const rowOf = ends(streams.map((stream) => stream.tokens.length));
  return {
    token: each((stream, i) => stream.tokens[i] ?? 0),
    position: each((stream, i) => stream.position + i),
    cell: each((stream, i) => stream.slot + i),
    store: new Uint8Array(rows).fill(1),
    rowOf,
    viewOf: ends(streams.map((stream) => stream.view.length)),
    runPage: ends(pages.map((list) => list.length)).slice(0, -1),
    runFirst: Int32Array.from(runs, (run) => run.slot % pageSize),
    runLength: Int32Array.from(runs, (run) => run.length),
    runBirth: Int32Array.from(runs, (run) => run.birth),
    runShift: Int32Array.from(runs, (run) => run.shift),
    pages: Int32Array.from(pages.flat()),
    outRow: rowOf.slice(1).map((end) => end - 1),
    outTarget: new Int32Array(streams.length).fill(-1),
    outTop: new Uint8Array(streams.length),
    outSampler: new Int32Array(streams.length),
    samplers: [GREEDY],
  };
}

/** The same measured things as `Yardstick`, by raw steps on a runtime: no scheduler, no tree. Stream s owns an equal share of the pages. */
export class Probe {
  readonly runtime: Runtime;
  readonly #share: number;
  readonly #cancel = new Int32Array(new SharedArrayBuffer(4));
  #cached = 0;
  #state = 1;
  /** What the last step counted. */
  counts: StepCounts | undefined;

  constructor(runtime: Runtime, streams = 4) {
    this.runtime = runtime;
    // The first stream holds the common cells; the others only what they add.
    this.#share = Math.floor((runtime.pages * runtime.pageSize) / (streams + 4));
  }

  #token(): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return (this.#state >>> 8) % this.runtime.info.vocabularySize;
  }

  async #run(streams: Rows[]): Promise<void> {
    this.counts = (await this.runtime.step(stepOf(streams, this.runtime.pageSize), this.#cancel)).counts;
  }

  /** The cells were written by somebody else. */
  forget(): void {
    this.#cached = 0;
  }

  async #feed(rows: number, depth: number): Promise<void> {
    for (let done = 0; done < rows; done += 512) {
      const at = depth + done;
      const tokens = Array.from({ length: Math.min(512, rows - done) }, () => this.#token());
      await this.#run([{ tokens, position: at, slot: at, view: at > 0 ? [{ slot: 0, length: at, birth: 0, shift: 0 }] : [] }]);
    }
  }

  async #settle(depth: number): Promise<void> {
    if (this.#cached < depth) await this.#feed(depth - this.#cached, this.#cached);
    this.#cached = depth;
  }

  async prefill(rows: number, depth: number): Promise<number> {
    await this.#settle(depth);
    const start = performance.now();
    await this.#feed(rows, depth);
    this.#cached = depth + rows;
    return performance.now() - start;
  }

  async decode(tokens: number, depth: number, streams = 1): Promise<number> {
    await this.#settle(depth);
    const own = (stream: number) => (stream === 0 ? depth : this.#share * (stream + 4));
    const start = performance.now();
    for (let t = 0; t < tokens; t++) {
      await this.#run(
        Array.from({ length: streams }, (_, stream) => {
          const view: Stretch[] = [];
          if (depth > 0) view.push({ slot: 0, length: depth, birth: 0, shift: 0 });
          if (t > 0) view.push({ slot: own(stream), length: t, birth: depth, shift: 0 });
          return { tokens: [this.#token()], position: depth + t, slot: own(stream) + t, view };
        }),
      );
    }
    const ms = performance.now() - start;
    this.#cached = depth + tokens;
    return ms;
  }

  /** Decodes behind `depth` cells that stand in `pieces` pieces, each with another shift. */
  async decodeShifted(tokens: number, depth: number, pieces: number): Promise<number> {
    await this.#settle(depth);
    const edges = Array.from({ length: pieces + 1 }, (_, i) => Math.round((i * depth) / pieces));
    const start = performance.now();
    for (let t = 0; t < tokens; t++) {
      // Piece i moves by i: rising positions, all shifts distinct.
      const view = edges.slice(0, -1).map((from, i) => ({ slot: from, length: (edges[i + 1] ?? depth) - from, birth: from, shift: i }));
      await this.#run([{ tokens: [this.#token()], position: depth + pieces, slot: depth, view }]);
    }
    return performance.now() - start;
  }

  /** Drops `dropped` of `depth` cells in the middle, repositions the rest, computes the next token. */
  async shift(depth: number, dropped: number): Promise<number> {
    await this.#settle(depth);
    const first = (depth - dropped) >> 1;
    const start = performance.now();
    const view: Stretch[] = [
      { slot: 0, length: first, birth: 0, shift: 0 },
      { slot: first + dropped, length: depth - first - dropped, birth: first + dropped, shift: -dropped },
    ];
    await this.#run([{ tokens: [this.#token()], position: depth - dropped, slot: depth, view }]);
    return performance.now() - start;
  }
}
