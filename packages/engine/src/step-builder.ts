import type { Birth } from "@palimpsest/directives";
import type { Sampler, Step } from "@palimpsest/kernels-cuda";
import { EngineError } from "./errors.ts";
import type { CellTable } from "./table.ts";

/** A list of integers that keeps its memory from step to step. */
class Ints {
  data = new Int32Array(64);
  length = 0;

  push(value: number): void {
    if (this.length === this.data.length) this.reserve(1);
    this.data[this.length++] = value;
  }

  /** Makes room for `count` more. */
  reserve(count: number): void {
    if (this.length + count <= this.data.length) return;
    const grown = new Int32Array(Math.max(this.length + count, 2 * this.data.length));
    grown.set(this.data.subarray(0, this.length));
    this.data = grown;
  }

  view(): Int32Array {
    return this.data.subarray(0, this.length);
  }
}

const NO_SAMPLER: Sampler = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n, draw: 0 };

/**
 * Writes the flat arrays of one step, segment by segment. The arrays belong to the builder and are written anew for the next step, so
 * that a step allocates next to nothing once the builder has seen a larger one.
 */
export class StepBuilder {
  readonly #pageSize: number;
  readonly #token = new Ints();
  readonly #position = new Ints();
  readonly #cell = new Ints();
  readonly #store = new Ints();
  readonly #rowOf = new Ints();
  readonly #viewOf = new Ints();
  readonly #runPage = new Ints();
  readonly #runFirst = new Ints();
  readonly #runLength = new Ints();
  readonly #runBirth = new Ints();
  readonly #runShift = new Ints();
  readonly #pages = new Ints();
  readonly #outRow = new Ints();
  readonly #outTarget = new Ints();
  readonly #outTop = new Ints();
  readonly #outSampler = new Ints();
  #samplers: Sampler[] = [];
  /** Slot behind the last cell of the run written last, −1 when the next cell cannot join it. */
  #joinAt = -1;

  constructor(pageSize: number) {
    this.#pageSize = pageSize;
    this.clear();
  }

  get rows(): number {
    return this.#token.length;
  }

  get outputs(): number {
    return this.#outRow.length;
  }

  clear(): void {
    for (const list of this.#lists()) list.length = 0;
    this.#samplers = [];
    this.#rowOf.push(0);
    this.#viewOf.push(0);
  }

  /** One segment: the cells [from, to) of a birth, after the birth's view and what stands before them in the birth. Returns its first row. */
  segment(tokens: Int32Array, birth: Birth, from: number, to: number, store: boolean, table: CellTable): number {
    const firstRow = this.#token.length;
    const count = to - from;
    for (const list of [this.#token, this.#position, this.#cell, this.#store]) list.reserve(count);
    const firstPosition = birth.position + from - birth.cell;
    for (let i = 0; i < count; i++) {
      this.#token.push(tokens[from + i]!);
      this.#position.push(firstPosition + i);
      this.#store.push(store ? 1 : 0);
    }
    this.#slots(from, to, table);
    this.#rowOf.push(this.#token.length);
    this.#joinAt = -1;
    for (const { cell, length, birth: born, shift } of birth.view) this.#read(cell, cell + length, born, shift, table);
    if (from > birth.cell) this.#read(birth.cell, from, birth.position, 0, table);
    this.#viewOf.push(this.#runPage.length);
    return firstRow;
  }

  /** The logits of a row are sampled. */
  sample(row: number, top: number, sampler: Sampler): void {
    this.#output(row, -1, top, this.#samplers.length);
    this.#samplers.push(sampler);
  }

  /** The log-probability of `target` in the logits of a row is wanted. */
  score(row: number, target: number, top: number): void {
    this.#output(row, target, top, 0);
  }

  /** The step, valid until `clear`. */
  build(): Step {
    return {
      token: this.#token.view(),
      position: this.#position.view(),
      cell: this.#cell.view(),
      store: Uint8Array.from(this.#store.view()),
      rowOf: this.#rowOf.view(),
      viewOf: this.#viewOf.view(),
      runPage: this.#runPage.view(),
      runFirst: this.#runFirst.view(),
      runLength: this.#runLength.view(),
      runBirth: this.#runBirth.view(),
      runShift: this.#runShift.view(),
      pages: this.#pages.view(),
      outRow: this.#outRow.view(),
      outTarget: this.#outTarget.view(),
      outTop: Uint8Array.from(this.#outTop.view()),
      outSampler: this.#outSampler.view(),
      samplers: this.#samplers.length > 0 ? this.#samplers : [NO_SAMPLER],
    };
  }

  #output(row: number, target: number, top: number, sampler: number): void {
    this.#outRow.push(row);
    this.#outTarget.push(target);
    this.#outTop.push(top);
    this.#outSampler.push(sampler);
  }

  #slots(from: number, to: number, table: CellTable): void {
    const { extents } = table;
    let at = from;
    for (let i = table.indexOf(from); at < to; i++) {
      const extent = extents[i];
      if (extent === undefined || extent.cell > at) throw missing(at);
      const end = Math.min(to, extent.cell + extent.length);
      for (; at < end; at++) {
        const place = extent.first + at - extent.cell;
        this.#cell.push(extent.pages[Math.floor(place / this.#pageSize)]! * this.#pageSize + (place % this.#pageSize));
      }
    }
  }

  /** Runs for the cells [from, to) that were born from position `born` on and stand shifted by `shift`. */
  #read(from: number, to: number, born: number, shift: number, table: CellTable): void {
    const { extents } = table;
    let at = from;
    for (let i = table.indexOf(from); at < to; i++) {
      const extent = extents[i];
      if (extent === undefined || extent.cell > at) throw missing(at);
      const end = Math.min(to, extent.cell + extent.length);
      this.#run(extent.pages, extent.first + at - extent.cell, end - at, born + at - from, shift);
      at = end;
    }
  }

  /**
   * `length` cells from place `first` of a list of pages. They join the run before when they follow it in position and shift, and
   * either both meet inside one page or each has its side of a page's border for itself:
   *
   *     | . . a a | a a a · |        | . . a a | a a a a |
   *                     b b b         b b b b |
   */
  #run(pages: Int32Array, first: number, length: number, birth: number, shift: number): void {
    const size = this.#pageSize;
    const firstPage = Math.floor(first / size);
    const lastPage = Math.floor((first + length - 1) / size);
    const offset = first % size;
    const slot = pages[firstPage]! * size + offset;
    const last = this.#runPage.length - 1;
    const joins = this.#joinAt >= 0 && this.#follows(last, birth, shift) && (offset === 0 ? this.#joinAt % size === 0 : this.#joinAt === slot);
    if (joins) this.#runLength.data[last]! += length;
    else {
      this.#runPage.push(this.#pages.length);
      this.#runFirst.push(offset);
      this.#runLength.push(length);
      this.#runBirth.push(birth);
      this.#runShift.push(shift);
    }
    this.#pages.reserve(lastPage - firstPage + 1);
    // The page in which a run is continued is in its list already.
    for (let page = joins && offset !== 0 ? firstPage + 1 : firstPage; page <= lastPage; page++) this.#pages.push(pages[page]!);
    this.#joinAt = pages[lastPage]! * size + ((first + length - 1) % size) + 1;
  }

  /** Whether cells born from `birth` on and shifted by `shift` go on where run `run` ends. */
  #follows(run: number, birth: number, shift: number): boolean {
    const end = this.#runBirth.data[run]! + this.#runLength.data[run]!;
    return end === birth && shift === this.#runShift.data[run];
  }

  *#lists(): Generator<Ints> {
    yield* [this.#token, this.#position, this.#cell, this.#store, this.#rowOf, this.#viewOf, this.#pages];
    yield* [this.#runPage, this.#runFirst, this.#runLength, this.#runBirth, this.#runShift];
    yield* [this.#outRow, this.#outTarget, this.#outTop, this.#outSampler];
  }
}

function missing(cell: number): EngineError {
  return new EngineError("engine_damaged", `cell ${cell} is read by a step, and neither resident nor computed`);
}
