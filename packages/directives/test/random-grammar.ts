import type { Boundary, Directive, Part, Target } from "../src/types.ts";
import type { Random } from "./random-logs.ts";

const PARTS: readonly Part[] = ["content", "thinking", "tool_calls", "tool_result"];
const TEXTS = ["", "x", "[elided]", 'say "hi"\n', "tab\tand \\ slash", "\u{1f600} 界", "# not a comment", "a after 3", "]}\"", "\u2028"];

/** Any directive that the grammar allows, whether or not a log could hold it. */
export function randomGrammar(random: Random): Directive {
  const op = random.pick(["drop", "reposition", "splice", "pin", "decay", "scratch"]);
  const target = op === "reposition" ? {} : { target: randomTarget(random) };
  const at = random.chance(0.6) ? { at: randomBoundary(random) } : {};
  return { op, ...target, ...ownFields(random, op), ...at };
}

function ownFields(random: Random, op: string): Record<string, unknown> {
  if (op === "decay") return { turns: random.int(1, 9) };
  if (op === "pin") return random.pick([{}, { until: { turns: random.int(1, 9) } }, { until: { seconds: random.pick([1, 0.5, 1e-7, 86400, 1e21]) } }]);
  if (op !== "splice") return {};
  const replacement = random.chance(0.5) ? random.pick(TEXTS) : Array.from({ length: random.int(0, 4) }, () => random.int(0, 50_000));
  const mode = random.pick([{}, { mode: "amortize" }, { mode: "refresh" }, { mode: "forget" }]);
  return { with: replacement, ...mode, ...(random.chance(0.3) ? { refresh_tokens: random.int(1, 99) } : {}) };
}

function randomBoundary(random: Random): Boundary {
  return random.chance(0.5) ? { message: random.int(0, 40) } : { token: random.int(0, 4_000) };
}

function randomTarget(random: Random): Target {
  const kind = random.int(0, 2);
  if (kind === 0) return { tokens: [random.int(0, 99), random.int(0, 99)] };
  if (kind === 1) {
    const start = random.int(0, 20);
    const messages = random.chance(0.5) ? Array.from({ length: random.int(1, 9) }, (_, i) => start + i) : Array.from({ length: random.int(1, 5) }, () => random.int(0, 20));
    return { messages, ...(random.chance(0.4) ? { part: random.pick(PARTS) } : {}) };
  }
  const exact = random.pick(TEXTS.slice(1));
  return { text: { message: random.int(0, 9), exact, ...(random.chance(0.4) ? { occurrence: random.int(1, 3) } : {}) } };
}
