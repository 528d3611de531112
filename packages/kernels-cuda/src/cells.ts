import { KernelError } from "./errors.ts";
import { awaiting, type NativeRuntime } from "./native.ts";
import type { CellAccess } from "./runtime.ts";

/** Copied at a time: a step that comes meanwhile waits for a millisecond or two. */
const PIECE_BYTES = 4 * 2 ** 20;

/** Cells of the native pool. */
export class NativeCells implements CellAccess {
  readonly cellBytes: number;
  readonly #native: NativeRuntime;

  constructor(native: NativeRuntime) {
    this.#native = native;
    this.cellBytes = native.facts.cellBytes;
  }

  async read(slots: Int32Array, into: Uint8Array): Promise<void> {
    this.#check(slots, into, "into");
    for (const [piece, from, to] of this.#pieces(slots)) into.subarray(from, to).set(await awaiting(() => this.#native.readCells(piece)));
  }

  async write(slots: Int32Array, from: Uint8Array): Promise<void> {
    this.#check(slots, from, "from");
    for (const [piece, start, end] of this.#pieces(slots)) await awaiting(() => this.#native.writeCells(piece, from.subarray(start, end)));
  }

  /** One call: whatever is sent behind it finds the cells cleared. */
  async clear(slots: Int32Array): Promise<void> {
    this.#checkSlots(slots);
    await awaiting(() => this.#native.clearCells(slots));
  }

  *#pieces(slots: Int32Array): Generator<[slots: Int32Array, from: number, to: number]> {
    const count = Math.max(1, Math.floor(PIECE_BYTES / this.cellBytes));
    for (let at = 0; at < slots.length; at += count) {
      const piece = slots.subarray(at, at + count);
      yield [piece, at * this.cellBytes, (at + piece.length) * this.cellBytes];
    }
  }

  #check(slots: Int32Array, bytes: Uint8Array, param: string): void {
    this.#checkSlots(slots);
    if (!(bytes instanceof Uint8Array)) throw new KernelError("argument_invalid", `a Uint8Array is expected, ${typeof bytes} came`, param);
    const wanted = slots.length * this.cellBytes;
    if (bytes.length !== wanted) throw new KernelError("argument_invalid", `${slots.length} cells have ${wanted} bytes, ${bytes.length} came`, param);
  }

  /** All of them before the first piece: a refused call does nothing. */
  #checkSlots(slots: Int32Array): void {
    if (!(slots instanceof Int32Array)) throw new KernelError("argument_invalid", `an Int32Array is expected, ${typeof slots} came`, "slots");
    const count = this.#native.facts.pages * this.#native.facts.pageSize;
    const at = slots.findIndex((slot) => slot < 0 || slot >= count);
    if (at >= 0) throw new KernelError("argument_invalid", `slots are 0 … ${count - 1}, ${slots[at]} came`, `slots[${at}]`);
  }
}
