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

  /** Numbers of the directives that the tenant's budget of pinned cells had no room for. Of such a directive nothing is pinned. */
  apply(sequence: Sequence): Set<number> {
    const { holding } = sequence.admission!;
    for (const { cells: [from, to], priority } of sequence.fold.retention) if (priority <= ORDINARY) holding.rank(from, to, rankOf(priority));
    const refused = new Set<number>();
    for (const [directive, retentions] of pinsOf(sequence)) if (!this.#pinAll(sequence, holding, retentions)) refused.add(directive);
    return refused;
  }

  /** The same before the fact, where `pinned` cells of the budget are taken now. Changes nothing. */
  foresee(sequence: Sequence, pinned: number, budget: number): Set<number> {
    const refused = new Set<number>();
    const held = new Map<string, number>();
    const cellsOf = (key: string) => held.get(key) ?? (this.#pins.get(key) ?? []).reduce((sum, pin) => sum + (pin.active ? pin.cells : 0), 0);
    let all = pinned;
    for (const [directive, retentions] of pinsOf(sequence)) {
      const wanted = new Map(retentions.map((retention) => [keyOf(sequence, retention), retention.cells[1] - retention.cells[0]]));
      for (const key of wanted.keys()) {
        all -= cellsOf(key);
        held.set(key, 0);
      }
      const more = [...wanted.values()].reduce((sum, cells) => sum + cells, 0);
      if (all + more > budget) {
        refused.add(directive);
        continue;
      }
      for (const [key, cells] of wanted) held.set(key, cells);
      all += more;
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

  #pinAll(sequence: Sequence, holding: Holding, retentions: readonly Retention[]): boolean {
    const keys = retentions.map((retention) => keyOf(sequence, retention));
    // Said again, a pin counts once.
    for (const key of keys) this.#end(key);
    this.#forgetEnded();
    for (const [i, { cells: [from, to], seconds }] of retentions.entries()) {
      const pins = holding.pin(from, to, { account: sequence.namespace, until: this.#nowMs() + 1000 * (seconds ?? IDLE_SECONDS) });
      if (pins === null) {
        for (const key of keys) this.#end(key);
        return false;
      }
      this.#pins.set(keys[i]!, pins);
    }
    return true;
  }

  #end(key: string): void {
    for (const pin of this.#pins.get(key) ?? []) pin.release();
    this.#pins.delete(key);
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

/** What a request wants to pin, by directive. */
function pinsOf({ fold }: Sequence): Map<number, Retention[]> {
  const pins = new Map<number, Retention[]>();
  for (const retention of fold.retention) {
    if (retention.priority <= ORDINARY) continue;
    const others = pins.get(retention.directive);
    if (others === undefined) pins.set(retention.directive, [retention]);
    else others.push(retention);
  }
  return pins;
}

/** Names the pin of a range of cells in a log. */
function keyOf({ namespace, tokens, events }: Sequence, { cells: [from, to] }: Retention): string {
  return `${namespace} ${from} ${hashOf({ tokens: tokens.subarray(0, to), events })}`;
}

/** Priority 0 … ordinary as a rank of the tree. */
function rankOf(priority: number): number {
  return LOWEST_RANK * (1 - priority / ORDINARY);
}

/** Two paths are told apart by two numbers of 32 bits: who makes them collide ends a pin of his own. */
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
