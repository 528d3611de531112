import type { Entry } from "./scheduler.ts";

/** Speeds of an engine on its machine, as measured in its own steps; null until it has seen one. */
export interface StepRates {
  /** Rows of prompts per second, in steps that ran several. */
  prefillTokensPerSecond: number | null;
  /** Of a step in which everybody decodes. */
  decodeStepSeconds: number | null;
}

/** A step with fewer rows of prompts says nothing of their speed. */
const PREFILL_ROWS_MIN = 8;
/** What a measurement counts once another has come: the last ten or so decide. */
const KEEP = 0.9;

/** A mean whose past fades. */
class Mean {
  #amount = 0;
  #weight = 0;

  add(amount: number, weight: number): void {
    this.#amount = this.#amount * KEEP + amount;
    this.#weight = this.#weight * KEEP + weight;
  }

  get value(): number | null {
    return this.#weight > 0 && this.#amount > 0 ? this.#amount / this.#weight : null;
  }
}

/** Measures steps by what they ran. */
export class StepMeter {
  readonly #prefill = new Mean();
  readonly #decode = new Mean();

  observe(entries: readonly Entry[], ms: number): void {
    const seconds = ms / 1000;
    const rows = entries.reduce((sum, { work, decode }) => sum + (decode ? 0 : work.to - work.from), 0);
    if (rows >= PREFILL_ROWS_MIN) this.#prefill.add(rows, seconds);
    else if (rows === 0) this.#decode.add(seconds, 1);
  }

  get rates(): StepRates {
    return { prefillTokensPerSecond: this.#prefill.value, decodeStepSeconds: this.#decode.value };
  }
}
