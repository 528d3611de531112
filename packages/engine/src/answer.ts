import { EngineError } from "./errors.ts";
import type { GenerateEvent, Generation } from "./types.ts";

/** What a reader may ask of the engine. Both are idempotent, and do nothing once the answer has ended. */
export interface AnswerControl {
  cancel(): void;
  stop(): void;
}

/**
 * The events of one running answer, between the engine that pushes and one reader that takes. At most as many events wait as the
 * answer has tokens, so a slow reader holds no pages: the answer ends without him.
 */
export class Answer implements Generation {
  readonly #control: AnswerControl;
  #events: GenerateEvent[] = [];
  #error: unknown = null;
  #ended = false;
  #wake: (() => void) | null = null;
  #taken = false;

  constructor(control: AnswerControl) {
    this.#control = control;
  }

  push(event: GenerateEvent): void {
    if (this.#ended) return;
    this.#ended = event.type === "end";
    this.#events.push(event);
    this.#notify();
  }

  fail(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#notify();
  }

  stop(): void {
    // Tokens that nobody has seen were not delivered.
    this.#events = this.#events.filter(({ type }) => type !== "token");
    this.#control.stop();
  }

  [Symbol.asyncIterator](): AsyncIterator<GenerateEvent, undefined> {
    if (this.#taken) throw new EngineError("request_invalid", "an answer is read once, and this one is being read already");
    this.#taken = true;
    return {
      next: () => this.#next(),
      return: async () => {
        this.#control.cancel();
        return { done: true, value: undefined };
      },
    };
  }

  async #next(): Promise<IteratorResult<GenerateEvent, undefined>> {
    while (this.#events.length === 0) {
      if (this.#error !== null) throw this.#error;
      if (this.#ended) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return { done: false, value: this.#events.shift()! };
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
