import { expect, test } from "vitest";
import { DirectiveError, parseDirectives, parseText, printText } from "../src/index.ts";
import type { Directive } from "../src/types.ts";
import { randomGrammar } from "./random-grammar.ts";
import { Random } from "./random-logs.ts";

const long = process.env.PALIMPSEST_LONG === "1";
const inputs = long ? 5_000_000 : 60_000;
const SCRAPS = ["drop", "splice", "messages", "tokens", "text", "exact", "with", "refresh", "after", "at", "part", "until", "turns", "..", ",", '"', "\\", "[", "]", "{", "}", "0", "7", "-1", "1e9", "\n", "\t", " ", "#", "\u0000", "\ud800", "é", "__proto__", "constructor", "null", "true"];

/** Only a refusal that names its place may come out of the parser. */
function survive(parse: () => Directive[]): Directive[] | null {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof DirectiveError)) throw error;
    if (error.kind !== "invalid" || error.param === undefined || error.message.length < 10) throw new Error(`a poor refusal: ${error.message}`, { cause: error });
    return null;
  }
}

function mutate(random: Random, text: string): string {
  let out = text;
  for (let edits = random.int(1, 4); edits > 0; edits--) {
    const at = random.int(0, out.length);
    const kind = random.int(0, 2);
    if (kind === 0) out = out.slice(0, at) + random.pick(SCRAPS) + out.slice(at);
    else if (kind === 1) out = out.slice(0, at) + out.slice(at + random.int(1, 5));
    else out = out.slice(0, at) + String.fromCharCode(random.int(0, 255)) + out.slice(at + 1);
  }
  return out;
}

test(`${inputs} damaged texts: each is read or refused by place`, () => {
  let read = 0;
  const random = new Random(7);
  for (let i = 0; i < inputs; i++) {
    const text = random.chance(0.2) ? Array.from({ length: random.int(0, 12) }, () => random.pick(SCRAPS)).join(" ") : mutate(random, printText([randomGrammar(random)]));
    const directives = survive(() => parseText(text));
    if (directives === null) continue;
    read++;
    const again = survive(() => parseText(printText(directives)));
    if (JSON.stringify(again) !== JSON.stringify(directives)) throw new Error(`${JSON.stringify(text)} does not come back`);
  }
  expect(read).toBeGreaterThan(inputs / 50);
});

test(`${inputs} damaged JSON directives: each is read or refused by field`, () => {
  let read = 0;
  const random = new Random(11);
  const values = [null, undefined, true, -1, 0, 1.5, 1e300, Number.NaN, "", "x", [], {}, [[]], { tokens: [0, 1] }, { message: 1 }, { messages: [1] }, { __proto__: null }, Object.create(null)];
  for (let i = 0; i < inputs; i++) {
    const directive = damage(random, randomGrammar(random), values);
    if (survive(() => parseDirectives([directive])) !== null) read++;
  }
  expect(read).toBeGreaterThan(inputs / 50);
});

function damage(random: Random, value: unknown, values: readonly unknown[]): unknown {
  if (random.chance(0.12)) return random.pick(values);
  if (Array.isArray(value)) return value.map((item) => damage(random, item, values));
  if (typeof value !== "object" || value === null) return value;
  const out: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) if (!random.chance(0.03)) out[key] = damage(random, item, values);
  if (random.chance(0.05)) out[random.pick(SCRAPS)] = random.pick(values);
  return out;
}

test("reading takes time in proportion to the text, whatever it holds", () => {
  const sizes = [100_000, 800_000];
  const shapes: ((size: number) => string)[] = [
    (size) => `drop tokens ${"9".repeat(size)}`,
    (size) => `splice tokens 1..2 with "${"a".repeat(size)}`,
    (size) => `splice tokens 1..2 with ${"[".repeat(size)}`,
    (size) => `splice tokens 1..2 with "${'\\"'.repeat(size / 2)}"`,
    (size) => `drop messages ${"1,".repeat(size / 2)}`,
    (size) => " ".repeat(size),
    (size) => "a".repeat(size),
    (size) => "#\n".repeat(size / 2),
    (size) => `drop messages ${"0..4095,".repeat(size / 8)}1`,
  ];
  for (const shape of shapes) {
    const [small, large] = sizes.map((size) => steps(() => survive(() => parseText(shape(size)))));
    // Eight times the text; a quadratic case would take 64 times as long. The floor keeps noise out.
    expect(large!).toBeLessThan(24 * Math.max(small!, 4));
  }
});

/** Fastest of some runs, in milliseconds of this process' own time. */
function steps(run: () => void): number {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(start);
    best = Math.min(best, (user + system) / 1000);
  }
  return best;
}
