import { setImmediate as nextTurn } from "node:timers/promises";
import { KernelError, type CellAccess, type ModelInfo, type Runtime, type Sampler, type Step, type StepResult } from "@palimpsest/kernels-cuda";

export interface ScriptedOptions {
  pages?: number;
  pageSize?: number;
  vocabularySize?: number;
  contextLength?: number;
  /** Turns of the event loop that a step takes: its layers. Between two of them it looks at the cancel flag. */
  layers?: number;
  /** Tokens to emit whatever the model says, by draw number. */
  script?: readonly number[];
  /** Called with each step once it is checked; throwing fails the step. */
  onStep?: (step: Step) => void;
}

/**
 * A model without weights. What a cell holds is the fingerprint of its dependencies: its token, and the fingerprints of the cells that
 * it sees with their distances, in order. Logits are a pure function of a row's fingerprint, so any wrong slot, view, position or order
 * changes tokens and scores. It also refuses what a correct engine never asks for: reading a slot that nobody wrote, writing one twice
 * without clearing, a run whose birth position is not that of its cells, an asked row that is not what it was when it was stored.
 */
export class ScriptedRuntime implements Runtime {
  readonly info: ModelInfo;
  readonly level = "reference";
  readonly cacheDtype = "f32";
  readonly pages: number;
  readonly pageSize: number;
  readonly threads = 1;
  readonly pageBytes: number;
  readonly #options: ScriptedOptions;
  /** By slot; 0 = nothing is written there. */
  readonly #prints: Float64Array;
  readonly #births: Int32Array;
  steps = 0;
  rows = 0;
  disposed = false;
  #running: Promise<unknown> = Promise.resolve();
  #queued = 0;

  constructor(options: ScriptedOptions = {}) {
    const { pages = 64, pageSize = 16, vocabularySize = 61, contextLength = 4096 } = options;
    this.#options = options;
    this.pages = pages;
    this.pageSize = pageSize;
    this.pageBytes = pageSize * 12;
    this.#prints = new Float64Array(pages * pageSize);
    this.#births = new Int32Array(pages * pageSize);
    this.info = {
      architecture: "scripted",
      name: "scripted",
      contextLength,
      vocabularySize,
      layers: options.layers ?? 1,
      embeddingLength: 1,
      heads: 1,
      kvHeads: 1,
      headSize: 1,
      groups: 1,
      quantization: "none",
      parameters: 0,
      weightBytes: 0,
    };
  }

  async step(step: Step, cancel: Int32Array): Promise<StepResult> {
    return this.#queue(() => this.#step(step, cancel));
  }

  #queue<T>(act: () => T | Promise<T>): Promise<T> {
    this.#queued++;
    const run = this.#running.then(act).finally(() => this.#queued--);
    this.#running = run.catch(() => {});
    return run;
  }

  /** Behind the calls that were made before; at once where none is open. */
  async #inTurn(act: () => void): Promise<void> {
    if (this.#queued > 0) await this.#queue(act);
    else act();
  }

  clearPages(pages: Int32Array): void {
    const copy = pages.slice();
    void this.#inTurn(() => copy.forEach((page) => this.#prints.fill(0, page * this.pageSize, (page + 1) * this.pageSize)));
  }

  /** A cell is its fingerprint and its birth position. Calls take their turn behind the running step. */
  get cells(): CellAccess {
    const each = 12;
    const inTurn = (act: () => void) => this.#inTurn(act);
    const check = (slots: Int32Array, bytes: Uint8Array): void => {
      if (bytes.length !== slots.length * each) throw new KernelError("argument_invalid", `${slots.length} cells came with ${bytes.length} bytes`);
    };
    return {
      cellBytes: each,
      read: (slots, into) => inTurn(() => {
        check(slots, into);
        const view = new DataView(into.buffer, into.byteOffset);
        slots.forEach((slot, i) => {
          view.setFloat64(i * each, this.#prints[slot]!);
          view.setInt32(i * each + 8, this.#births[slot]!);
        });
      }),
      write: (slots, from) => {
        check(slots, from);
        const view = new DataView(from.slice().buffer);
        return inTurn(() => slots.forEach((slot, i) => {
          // As a step: a cell is not written where another one is.
          if (this.#prints[slot] !== 0) throw new KernelError("argument_invalid", `slot ${slot} is written, and was not cleared`);
          this.#prints[slot] = view.getFloat64(i * each);
          this.#births[slot] = view.getInt32(i * each + 8);
        }));
      },
      clear: (slots) => inTurn(() => slots.forEach((slot) => (this.#prints[slot] = 0))),
    };
  }

  /** The fingerprint of each slot; 0: nothing is there. */
  get prints(): Float64Array {
    return this.#prints;
  }

  /** Slots that hold something. */
  get written(): number {
    return this.#prints.reduce((count, print) => count + (print === 0 ? 0 : 1), 0);
  }

  async dispose(): Promise<void> {
    this.disposed = true;
    await this.#running;
  }

  async #step(step: Step, cancel: Int32Array): Promise<StepResult> {
    if (this.disposed) throw new KernelError("runtime_disposed", "the runtime was disposed");
    this.#options.onStep?.(step);
    const rows = step.token.length;
    const prints = this.#forward(step);
    for (let layer = 0; layer < (this.#options.layers ?? 1); layer++) {
      if (Atomics.load(cancel, 0) !== 0) {
        // What a cancelled step stored is undefined.
        for (let row = 0; row < rows; row++) if (step.store[row] === 1) this.#prints[step.cell[row]!] = 0;
        throw new KernelError("step_cancelled", "the step was cancelled");
      }
      await nextTurn();
    }
    this.steps++;
    this.rows += rows;
    return this.#outputs(step, prints);
  }

  /** Fingerprints of all rows; stores those of rows that are stored. */
  #forward(step: Step): Float64Array {
    const writers = this.#writers(step);
    const prints = new Float64Array(step.token.length);
    const segmentOf = new Int32Array(step.token.length);
    for (let s = 0; s + 1 < step.rowOf.length; s++) segmentOf.fill(s, step.rowOf[s], step.rowOf[s + 1]);
    const open = new Uint8Array(step.token.length);
    const printOf = (row: number): number => {
      if (prints[row] !== 0) return prints[row]!;
      if (open[row] === 1) throw new KernelError("step_invalid", `row ${row} reads itself`);
      open[row] = 1;
      return (prints[row] = this.#rowPrint(step, row, segmentOf[row]!, writers, printOf));
    };
    for (let row = 0; row < step.token.length; row++) {
      const print = printOf(row);
      const slot = step.cell[row]!;
      if (step.store[row] === 0 && this.#prints[slot] !== print) throw new KernelError("step_invalid", `row ${row} is asked of slot ${slot}, which holds another cell`);
    }
    for (const [slot, row] of writers) {
      this.#prints[slot] = prints[row]!;
      this.#births[slot] = step.position[row]!;
    }
    return prints;
  }

  #writers(step: Step): Map<number, number> {
    const writers = new Map<number, number>();
    step.token.forEach((token, row) => {
      const slot = step.cell[row]!;
      if (!(token >= 0 && token < this.info.vocabularySize)) throw new KernelError("step_invalid", `row ${row} has token ${token}`);
      if (!(slot >= 0 && slot < this.#prints.length)) throw new KernelError("step_invalid", `row ${row} has slot ${slot}`);
      if (step.store[row] === 0) return;
      if (writers.has(slot)) throw new KernelError("step_invalid", `slot ${slot} is stored twice`);
      if (this.#prints[slot] !== 0) throw new KernelError("step_invalid", `slot ${slot} is stored, and was not cleared`);
      writers.set(slot, row);
    });
    return writers;
  }

  #rowPrint(step: Step, row: number, segment: number, writers: Map<number, number>, printOf: (row: number) => number): number {
    const position = step.position[row]!;
    if (!(position >= 0 && position < this.info.contextLength)) throw new KernelError("step_invalid", `row ${row} has position ${position}`);
    let print = mix(17, step.token[row]!);
    let last = -1;
    const see = (slot: number, at: number): void => {
      if (at <= last || at >= position) throw new KernelError("step_invalid", `row ${row} at ${position} sees ${at} after ${last}`);
      last = at;
      const writer = writers.get(slot);
      const seen = writer === undefined ? this.#prints[slot]! : printOf(writer);
      if (seen === 0) throw new KernelError("step_invalid", `row ${row} reads slot ${slot}, where nothing is`);
      print = mix(mix(print, seen), position - at);
    };
    for (let run = step.viewOf[segment]!; run < step.viewOf[segment + 1]!; run++) {
      for (let i = 0; i < step.runLength[run]!; i++) {
        const place = step.runFirst[run]! + i;
        const slot = step.pages[step.runPage[run]! + Math.floor(place / this.pageSize)]! * this.pageSize + (place % this.pageSize);
        const birth = step.runBirth[run]! + i;
        const writer = writers.get(slot);
        const born = writer === undefined ? this.#births[slot] : step.position[writer];
        if (born !== birth) throw new KernelError("step_invalid", `run ${run} says that slot ${slot} was born at ${birth}, not ${born}`);
        see(slot, birth + step.runShift[run]!);
      }
    }
    for (let other = step.rowOf[segment]!; other < row; other++) see(step.cell[other]!, step.position[other]!);
    return print;
  }

  #outputs(step: Step, prints: Float64Array): StepResult {
    const outputs = step.outRow.length;
    const ids = new Int32Array(outputs);
    const logprobs = new Float32Array(outputs);
    const topIds: number[] = [];
    const topLogprobs: number[] = [];
    for (let output = 0; output < outputs; output++) {
      const table = logProbabilities(prints[step.outRow[output]!]!, this.info.vocabularySize);
      const target = step.outTarget[output]!;
      ids[output] = target >= 0 ? target : this.#draw(table, step.samplers[step.outSampler[output]!]!);
      logprobs[output] = table[ids[output]!]!;
      const best = Array.from(table.keys()).toSorted((a, b) => table[b]! - table[a]! || a - b);
      for (const id of best.slice(0, step.outTop[output])) {
        topIds.push(id);
        topLogprobs.push(table[id]!);
      }
    }
    const counts = { rows: step.token.length, cellsStored: step.store.reduce((sum, store) => sum + store, 0), cellsRead: 0, rotations: 0, bytesMoved: 0 };
    return { ids, logprobs, topIds: Int32Array.from(topIds), topLogprobs: Float32Array.from(topLogprobs), counts };
  }

  #draw(table: Float64Array, { temperature, seed, draw }: Sampler): number {
    const scripted = this.#options.script?.[draw];
    if (scripted !== undefined) return scripted;
    if (temperature === 0) return table.indexOf(table.reduce((best, value) => Math.max(best, value), -Infinity));
    let left = fraction(mix(mix(Number(seed & 0xffffffffn), Number(seed >> 32n)), draw));
    for (let id = 0; id < table.length; id++) if ((left -= Math.exp(table[id]!)) < 0) return id;
    return table.length - 1;
  }
}

/** Mixes two fingerprints into one; never 0. */
export function mix(a: number, b: number): number {
  let low = (Math.imul((a >>> 0) ^ 0x9e3779b9, 0x85ebca6b) ^ (b >>> 0)) >>> 0;
  let high = (Math.imul(Math.floor(a / 0x100000000) ^ (b >>> 0), 0xc2b2ae35) ^ Math.floor(b / 0x100000000)) >>> 0;
  low = Math.imul(low ^ (low >>> 15) ^ high, 0x27d4eb2f) >>> 0;
  high = Math.imul(high ^ (high >>> 13) ^ low, 0x165667b1) >>> 0;
  low = (low ^ (high >>> 11)) >>> 0;
  return (high & 0x1fffff) * 0x100000000 + low || 1;
}

function fraction(print: number): number {
  return (mix(print, 3) % 0x10000000) / 0x10000000;
}

/** Of all tokens, for a row of this fingerprint. */
export function logProbabilities(print: number, vocabularySize: number): Float64Array {
  const logits = Float64Array.from({ length: vocabularySize }, (_, id) => 6 * fraction(mix(print, id + 1)));
  const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
  return logits.map((logit) => logit - Math.log(sum));
}
