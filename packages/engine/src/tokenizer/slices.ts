/** How long work may keep the event loop before it lets others have a turn. */
const SLICE_MS = 4;

/**
 * Turns for long work on the event loop: it asks `due` at places where it can stop, and waits for `pause` when it is. The work is
 * cut by time and not by amount, so a slow machine gives way as often as a fast one.
 */
export class Slices {
  readonly #signal: AbortSignal | undefined;
  #startedMs = performance.now();

  /** @param signal ends the work at its next pause, with its reason */
  constructor(signal?: AbortSignal) {
    this.#signal = signal;
  }

  get due(): boolean {
    return performance.now() - this.#startedMs >= SLICE_MS;
  }

  async pause(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#signal?.throwIfAborted();
    this.#startedMs = performance.now();
  }

  /** Runs steps to their end, with pauses. */
  async run<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      if (this.due) await this.pause();
    }
  }
}

/** Runs steps to their end, at once. */
export function runAtOnce<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
