import type { Boundary, ChatLog, Directive, Log, Target } from "../src/types.ts";

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

/** A chat log of messages with the given token counts and a generation header of `header` tokens. Roles go system, user, assistant, tool, … */
export function chatLog(lengths: readonly number[], header = 0, contextLength = 1_000_000): Log {
  const owners = lengths.flatMap((length, message) => Array.from({ length }, () => message));
  const start = owners.length;
  for (let i = 0; i < header; i++) owners.push(lengths.length);
  return {
    tokens: Int32Array.from(owners, (_, i) => 100 + i),
    header: start,
    contextLength,
    chat: {
      messages: lengths.length,
      owners: Int32Array.from(owners),
      roles: lengths.map((_, message) => (message === 0 ? "system" : ["tool", "user", "assistant"][message % 3]!)),
    },
  };
}

export function randomLog(random: Random, most = 40): Log {
  if (random.chance(0.5)) return tokenLog(random.int(1, most));
  const lengths = Array.from({ length: random.int(1, 8) }, () => random.int(0, Math.max(1, Math.floor(most / 6))));
  const log = chatLog(lengths, random.int(0, 3));
  return random.chance(0.5) ? withParts(log) : log;
}

/**
 * A chat whose messages have parts: between a first and a last token of its own each has reasoning, then content. Its texts are named by
 * their tokens: `2..4` are tokens 2 and 3 of a message.
 */
export function withParts(log: Log): Log {
  const chat = log.chat!;
  const spanOf = (message: number): [number, number] => [chat.owners.indexOf(message), chat.owners.lastIndexOf(message) + 1];
  return {
    ...log,
    chat: {
      ...chat,
      part: (message, part) => {
        const [start, end] = spanOf(message);
        const middle = Math.floor((start + end) / 2);
        const range: [number, number] = part === "thinking" ? [start + 1, middle] : part === "content" ? [middle, end - 1] : [0, 0];
        return range[0] < range[1] && end > 0 ? [range] : [];
      },
      text: (message, exact) => {
        const [start] = spanOf(message);
        const [from, to] = exact.split("..").map(Number) as [number, number];
        return from < to ? [[start + from, start + to]] : [];
      },
    },
  };
}

export interface Mix {
  /** How likely each kind of directive is, beside drop (the rest). */
  reposition?: number;
  splice?: number;
  refresh?: number;
  forget?: number;
  scratch?: number;
  decay?: number;
  pin?: number;
}

/** Directives that are legal in the log by themselves. Splices that meet at one boundary are left out. */
export function randomDirectives(random: Random, log: Log, mix: Mix, most = 8): Directive[] {
  const spliced: { at: number; start: number; end: number }[] = [];
  return Array.from({ length: random.int(0, most) }, () => randomDirective(random, log, mix)).filter((directive) => {
    if (directive.op !== "splice") return true;
    const [start, end] = spliceRange(log, directive.target!);
    const at = boundaryToken(log, directive.at);
    const meets = spliced.some((other) => other.at === at && (other.start === start || (start < other.end && other.start < end)));
    if (!meets) spliced.push({ at, start, end });
    return !meets;
  });
}

/** Drops and repositions only. */
export function randomDrops(random: Random, log: Log, most = 8): Directive[] {
  return randomDirectives(random, log, { reposition: 0.35 }, most);
}

function randomDirective(random: Random, log: Log, mix: Mix): Directive {
  const at = randomBoundary(random, log);
  const before = boundaryToken(log, at);
  const place = at && { at };
  const kind = randomKind(random, mix);
  if (kind === "reposition" || (before === 0 && kind !== "splice")) return { op: "reposition", ...place };
  if (kind === "splice" || kind === "refresh" || kind === "forget") return randomSplice(random, log, kind, before, place);
  const target = randomTarget(random, log, before);
  if (kind === "decay" && log.chat) return { op: "decay", target, turns: random.int(1, 3), ...place };
  if (kind === "pin") return { op: "pin", target, until: { seconds: random.int(1, 9) }, ...place };
  return { op: kind === "scratch" ? "scratch" : "drop", target, ...place };
}

function randomKind(random: Random, mix: Mix): string {
  let dice = random.unit();
  for (const [kind, weight] of Object.entries(mix)) {
    dice -= weight;
    if (dice < 0) return kind;
  }
  return "drop";
}

function randomSplice(random: Random, log: Log, kind: string, before: number, place: { at?: Boundary } | undefined): Directive {
  const start = random.chance(0.2) ? random.pick([0, before]) : random.int(0, before);
  const end = random.chance(0.25) ? start : random.int(start, Math.min(before, start + 8));
  const fewest = start === end ? 1 : 0;
  const tokens = Array.from({ length: random.int(fewest, 4) }, () => random.int(900, 999));
  const mode = kind === "splice" ? random.pick([{}, { mode: "amortize" }]) : { mode: kind };
  const refresh = kind === "refresh" && random.chance(0.9) ? { refresh_tokens: random.int(1, 7) } : {};
  const named = log.chat?.part && random.chance(0.4) ? randomName(random, log.chat, before) : null;
  return { op: "splice", target: named ?? { tokens: [start, end] }, with: tokens, ...mode, ...refresh, ...place };
}

export function boundaryToken(log: Log, at: Boundary | undefined): number {
  if (at === undefined) return log.header;
  return "token" in at ? at.token : log.chat!.owners.filter((owner) => owner <= at.message).length;
}

function randomBoundary(random: Random, log: Log): Boundary | undefined {
  if (random.chance(0.15)) return undefined;
  if (log.chat && random.chance(0.5)) return { message: random.int(0, log.chat.messages - 1) };
  // Few distinct places, so that boundaries meet.
  return { token: random.chance(0.5) ? random.int(0, log.header) : Math.min(log.header, 4 * random.int(0, Math.ceil(log.header / 4))) };
}

function randomTarget(random: Random, log: Log, before: number): Target {
  const last = log.chat ? log.chat.owners[before - 1]! : -1;
  if (log.chat && random.chance(0.5) && (log.chat.owners[before] ?? -1) !== last) {
    return { messages: Array.from({ length: random.int(1, 3) }, () => random.int(0, last)) };
  }
  const named = log.chat?.part && random.chance(0.5) ? randomName(random, log.chat, before) : null;
  if (named) return named;
  const start = random.chance(0.2) ? 0 : random.int(0, before - 1);
  const end = random.chance(0.2) ? before : random.int(start + 1, before);
  return { tokens: [start, end] };
}

/** A part or a text of one message that lies wholly before a token; null where none does. */
function randomName(random: Random, { owners, messages }: ChatLog, before: number): Target | null {
  const whole = Array.from({ length: messages }, (_, message) => message).filter((message) => owners.includes(message) && owners.lastIndexOf(message) < before);
  if (whole.length === 0) return null;
  const message = random.pick(whole);
  if (random.chance(0.6)) return { messages: [message], part: random.pick(["thinking", "content", "tool_calls"]) };
  const length = owners.lastIndexOf(message) + 1 - owners.indexOf(message);
  const from = random.int(0, length - 1);
  return { text: { message, exact: `${from}..${random.int(from, length)}` } };
}

/** What a splice's target covers; empty in front of everything where there is none of it. */
function spliceRange({ chat }: Log, target: Target): readonly [number, number] {
  if ("tokens" in target) return target.tokens;
  const ranges = "text" in target ? chat!.text!(target.text.message, target.text.exact, 1) : chat!.part!(target.messages[0]!, target.part!);
  return ranges?.[0] ?? [-1, -1];
}
