/** Buffers of one length, used again and again: fresh memory costs as much to get as a block does to encrypt. */
export class Staging {
  readonly #length: number;
  readonly #max: number;
  readonly #free: Uint8Array[] = [];

  /** Keeps at most `max` buffers for later. */
  constructor(length: number, max: number) {
    this.#length = length;
    this.#max = max;
  }

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(this.#length);
  }

  /** Zeroes the buffer. Only when nobody reads or writes it any more. */
  give(buffer: Uint8Array): void {
    buffer.fill(0);
    if (this.#free.length < this.#max) this.#free.push(buffer);
  }
}
