/** Lets at most so many units through at a time; others wait in the order in which they came. */
export class Gate {
  readonly #max: number;
  #used = 0;
  readonly #waiting: { units: number; enter: () => void }[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Resolves when there is room; more than fits at all passes alone. False: `signal` ended the wait. */
  enter(units: number, signal?: AbortSignal): Promise<boolean> {
    if (signal?.aborted === true) return Promise.resolve(false);
    if (this.#waiting.length === 0 && this.#fits(units)) {
      this.#used += units;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const ticket = {
        units,
        enter: () => {
          signal?.removeEventListener("abort", leave);
          resolve(true);
        },
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(ticket), 1);
        resolve(false);
        this.#admit();
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(ticket);
    });
  }

  leave(units: number): void {
    this.#used -= units;
    this.#admit();
  }

  #fits(units: number): boolean {
    return this.#used === 0 || this.#used + units <= this.#max;
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#fits(this.#waiting[0]!.units)) {
      const ticket = this.#waiting.shift()!;
      this.#used += ticket.units;
      ticket.enter();
    }
  }
}
