import type { Sequence } from "./sequence.ts";

interface Waiter {
  sequence: Sequence;
  ticket: number;
  sinceMs: number;
  /** Requests behind it that were admitted in front of it. */
  bypassed: number;
}

/**
 * Requests that wait for a place or for pages; they hold nothing. Each namespace draws its tickets in a row of its own, from the number
 * that is being served: a tenant with a hundred requests waits behind himself, another with one is next.
 */
export class WaitingLine {
  readonly #line: Waiter[] = [];
  /** Last ticket by namespace, of those who wait. */
  readonly #last = new Map<string, { ticket: number; waiting: number }>();
  #served = 0;

  get length(): number {
    return this.#line.length;
  }

  get oldestSinceMs(): number | null {
    return this.#line.length === 0 ? null : Math.min(...this.#line.map(({ sinceMs }) => sinceMs));
  }

  push(sequence: Sequence, nowMs: number): void {
    const last = this.#last.get(sequence.namespace) ?? { ticket: this.#served, waiting: 0 };
    last.ticket++;
    last.waiting++;
    this.#last.set(sequence.namespace, last);
    const waiter = { sequence, ticket: last.ticket, sinceMs: nowMs, bypassed: 0 };
    let at = this.#line.length;
    while (at > 0 && this.#line[at - 1]!.ticket > waiter.ticket && this.#line[at - 1]!.bypassed === 0) at--;
    this.#line.splice(at, 0, waiter);
  }

  at(index: number): Sequence | undefined {
    return this.#line[index]?.sequence;
  }

  /** Times that somebody passed the one at `index`. */
  bypasses(index: number): number {
    return this.#line[index]?.bypassed ?? 0;
  }

  /** The one at `index` is admitted; those in front of it were passed. */
  admit(index: number): void {
    for (let i = 0; i < index; i++) this.#line[i]!.bypassed++;
    this.#served = Math.max(this.#served, this.#line[index]!.ticket);
    this.#remove(index);
  }

  /** Takes out those that `gone` names. */
  drop(gone: (sequence: Sequence) => boolean): Sequence[] {
    const dropped: Sequence[] = [];
    for (let i = this.#line.length - 1; i >= 0; i--) {
      if (!gone(this.#line[i]!.sequence)) continue;
      dropped.unshift(this.#line[i]!.sequence);
      this.#remove(i);
    }
    return dropped;
  }

  #remove(index: number): void {
    const [waiter] = this.#line.splice(index, 1);
    const last = this.#last.get(waiter!.sequence.namespace)!;
    if (--last.waiting === 0) this.#last.delete(waiter!.sequence.namespace);
  }
}
