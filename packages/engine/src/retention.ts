import type { Retention } from "@palimpsest/directives";
import type { Path, Pin } from "@palimpsest/radix";
import type { Holding } from "./holding.ts";
import type { Sequence } from "./sequence.ts";

/** What cells are worth of which nobody said anything, on the scale of directives: 0 goes first, 100 last. */
const ORDINARY = 35;
/** What the tree gives to cells that nobody reads; 0 is its ordinary worth. */
const LOWEST_RANK = -2;
/** What is to be kept as long as requests say so is kept so long behind the last that did: a tenant that has left must not keep others out. */
const IDLE_SECONDS = 600;

/**
 * Tells the tree what the cells of a request are worth once it leaves. Below the ordinary that is a rank, which holds until the next
 * request reads the cells and says its own. Above, it is a pin within the tenant's budget, one for each range of each log: a request that
 * says it again prolongs it.
 */
export class Retainer {
  readonly #nowMs: () => number;
  readonly #pins = new Map<string, Pin[]>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Numbers of the directives that the tenant's budget of pinned cells had no room for. */
  apply(sequence: Sequence): Set<number> {
    const refused = new Set<number>();
    const { holding } = sequence.admission!;
    for (const retention of sequence.fold.retention) {
      const [from, to] = retention.cells;
      if (retention.priority <= ORDINARY) holding.rank(from, to, rankOf(retention.priority));
      else if (!this.#pin(sequence, holding, retention)) refused.add(retention.directive);
    }
    return refused;
  }

  /** The cells of an answer that later turns will not see go first. Returns how many there are; undefined where nobody asked. */
  scratch({ fold, request, tokens, length, admission }: Sequence): number | undefined {
    const first = fold.tokens.length;
    const ranges = request.scratchOf?.(tokens.subarray(first, length));
    for (const [from, to] of ranges ?? []) admission!.holding.rank(first + from, first + to, LOWEST_RANK);
    return ranges?.reduce((sum, [from, to]) => sum + to - from, 0);
  }

  #pin({ namespace, tokens, events }: Sequence, holding: Holding, { cells: [from, to], seconds }: Retention): boolean {
    const key = `${namespace} ${from} ${hashOf({ tokens: tokens.subarray(0, to), events })}`;
    for (const pin of this.#pins.get(key) ?? []) pin.release();
    this.#pins.delete(key);
    this.#forgetEnded();
    const pins = holding.pin(from, to, { account: namespace, until: this.#nowMs() + 1000 * (seconds ?? IDLE_SECONDS) });
    if (pins !== null) this.#pins.set(key, pins);
    return pins !== null;
  }

  /** Looks at a few of the oldest, so that the map holds little more than the pins that still stand. */
  #forgetEnded(): void {
    let looked = 0;
    for (const [key, pins] of this.#pins) {
      if (++looked > 8) return;
      if (!pins.some(({ active }) => active)) this.#pins.delete(key);
    }
  }
}

/** Priority 0 … ordinary as a rank of the tree. */
function rankOf(priority: number): number {
  return LOWEST_RANK * (1 - priority / ORDINARY);
}

/** Names a path among the pins of one tenant, by two numbers of 32 bits: who makes them collide ends a pin of his own. */
function hashOf({ tokens, events }: Path): string {
  let [a, b] = [0x811c9dc5, 0x9747b28c];
  const mix = (value: number) => {
    a = Math.imul(a ^ value, 0x01000193);
    b = Math.imul(b ^ (value >>> 5) ^ (value << 7), 0x01000193);
  };
  for (const token of tokens) mix(token);
  for (const { at, key } of events) {
    if (at >= tokens.length) break;
    mix(at);
    for (let i = 0; i < key.length; i++) mix(key.charCodeAt(i));
  }
  return `${tokens.length}:${a >>> 0}:${b >>> 0}`;
}
