import type { Directive, Log } from "../src/types.ts";

/** A seeded generator (mulberry32): the seed alone decides what a test sees. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** An integer in [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.unit() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(0, items.length - 1)]!;
  }

  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.int(0, i);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }
}

/** A completions log of `length` tokens. */
export function tokenLog(length: number, contextLength = 1_000_000): Log {
  return { tokens: Int32Array.from({ length }, (_, i) => 100 + i), header: length, contextLength };
}

/** A chat log of messages with the given token counts and a generation header of `header` tokens. */
export function chatLog(lengths: readonly number[], header = 0, contextLength = 1_000_000): Log {
  const owners = lengths.flatMap((length, message) => Array.from({ length }, () => message));
  const start = owners.length;
  for (let i = 0; i < header; i++) owners.push(lengths.length);
  return {
    tokens: Int32Array.from(owners, (_, i) => 100 + i),
    header: start,
    contextLength,
    chat: { messages: lengths.length, owners: Int32Array.from(owners) },
  };
}

export function randomLog(random: Random, most = 40): Log {
  if (random.chance(0.5)) return tokenLog(random.int(1, most));
  const lengths = Array.from({ length: random.int(1, 8) }, () => random.int(0, Math.max(1, Math.floor(most / 6))));
  return chatLog(lengths, random.int(0, 3));
}

/** Directives of drop and reposition that are legal in the log. */
export function randomDrops(random: Random, log: Log, most = 8): Directive[] {
  return Array.from({ length: random.int(0, most) }, (): Directive => {
    const at = randomBoundary(random, log);
    const before = at === undefined ? log.header : "token" in at ? at.token : log.chat!.owners.filter((owner) => owner <= at.message).length;
    if (before === 0 || random.chance(0.35)) return { op: "reposition", ...(at && { at }) };
    return { op: "drop", target: randomTarget(random, log, before), ...(at && { at }) };
  });
}

function randomBoundary(random: Random, log: Log): { message: number } | { token: number } | undefined {
  if (random.chance(0.15)) return undefined;
  if (log.chat && random.chance(0.5)) return { message: random.int(0, log.chat.messages - 1) };
  // Few distinct places, so that boundaries meet.
  return { token: random.chance(0.5) ? random.int(0, log.header) : Math.min(log.header, 4 * random.int(0, Math.ceil(log.header / 4))) };
}

function randomTarget(random: Random, log: Log, before: number): { tokens: [number, number] } | { messages: number[] } {
  const last = log.chat ? log.chat.owners[before - 1]! : -1;
  if (log.chat && random.chance(0.5) && (log.chat.owners[before] ?? -1) !== last) {
    return { messages: Array.from({ length: random.int(1, 3) }, () => random.int(0, last)) };
  }
  const start = random.chance(0.2) ? 0 : random.int(0, before - 1);
  const end = random.chance(0.2) ? before : random.int(start + 1, before);
  return { tokens: [start, end] };
}
