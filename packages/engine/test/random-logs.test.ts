import { fold, type Directive, type Log } from "@palimpsest/directives";
import type { Generation } from "@palimpsest/engine";
import { expect, test } from "vitest";
import { Random, randomDirectives } from "../../directives/test/random-logs.ts";
import { collect, requestOf, scriptedEngine, type Answered } from "./kit/harness.ts";
import { expectedAnswer } from "./kit/oracle.ts";

const VOCABULARY = 61;
const SEEDS = process.env.PALIMPSEST_LONG ? 3000 : 250;

interface Case {
  log: Log;
  directives: Directive[];
  maxTokens: number;
  echo: boolean;
}

/** Two to four logs that begin alike, each with its own edits, some of them shared. */
function family(random: Random): Case[] {
  const base = Array.from({ length: random.int(4, 90) }, () => random.int(0, VOCABULARY - 1));
  const shared = directivesFor(random, logOf(base)).map((directive) => Object.assign({ at: { token: base.length } }, directive));
  return Array.from({ length: random.int(2, 4) }, (_, index) => {
    const kept = index === 0 || random.chance(0.5) ? base.length : random.int(1, base.length);
    const tokens = [...base.slice(0, kept), ...Array.from({ length: random.int(0, 12) }, () => random.int(0, VOCABULARY - 1))];
    const log = logOf(tokens);
    const directives = kept === base.length && random.chance(0.6) ? shared : directivesFor(random, log);
    return { log, directives, maxTokens: random.int(0, 6), echo: random.chance(0.2) };
  });
}

function directivesFor(random: Random, log: Log): Directive[] {
  const mix = random.pick([{ reposition: 0.35 }, { reposition: 0.3, splice: 0.2, refresh: 0.1, scratch: 0.1 }, { reposition: 0.2, splice: 0.1, forget: 0.3 }]);
  const directives = randomDirectives(random, log, mix, 8);
  for (const directive of directives) if (Array.isArray(directive.with)) directive.with = directive.with.map((id: number) => id % VOCABULARY);
  try {
    fold(log, directives);
    return directives;
  } catch {
    return []; // A forget that leaves no token.
  }
}

function logOf(tokens: readonly number[]): Log {
  return { tokens: Int32Array.from(tokens), header: tokens.length, contextLength: 4096 };
}

/** The answer, or that there is no room for it. */
async function answerOf(generate: () => Generation): Promise<Answered | "capacity"> {
  try {
    return await collect(generate());
  } catch (error) {
    if ((error as { code?: unknown }).code === "pages_exceeded") return "capacity";
    throw error;
  }
}

function check({ log, directives, maxTokens, echo }: Case, answer: Answered, seed: number): void {
  const expected = expectedAnswer(log, directives, maxTokens, VOCABULARY);
  expect(answer.tokens, `seed ${seed}`).toStrictEqual(expected.tokens);
  expect(answer.logprobs.map((entry) => entry!.logprob), `seed ${seed}`).toStrictEqual(expected.logprobs);
  const { report } = answer;
  const folded = fold(log, directives);
  const { cached_tokens, repositioned_tokens, computed_tokens, skipped_tokens } = report;
  expect(cached_tokens + repositioned_tokens + computed_tokens + skipped_tokens, `seed ${seed}`).toBe(folded.tokens.length);
  if (!echo) return;
  expect(answer.scores!.map((score) => score && score.logprob), `seed ${seed}`).toStrictEqual(expected.scores);
  expect(computed_tokens).toBe(folded.tokens.length);
}

test(`${SEEDS} families of random logs answer as their naive fold says, whatever the batch, chunk, page and what was evicted`, async () => {
  let evicted = 0;
  let refused = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = new Random(seed);
    const cases = family(random);
    const pageSize = random.pick([1, 5, 16]);
    const longest = Math.max(...cases.map(({ log, directives, maxTokens }) => fold(log, directives).tokens.length + maxTokens));
    // In part of the families not even the longest log fits whole: it runs alone, if what it hides on the way makes enough room.
    const pages = random.chance(0.25) ? Math.ceil((0.8 * longest) / pageSize) : Math.ceil(longest / pageSize) + random.int(0, 12);
    const { engine, audit } = scriptedEngine({ pageSize, pages, vocabularySize: VOCABULARY }, { rowsPerStepMax: random.int(1, 256), rowsBesideDecodeMax: random.int(1, 64), shareCellsMin: random.pick([1, 8, 1 << 20]) });
    for (let round = 0; round < 3; round++) {
      const together = random.shuffle(cases).slice(0, random.int(1, cases.length));
      const answers = await Promise.all(
        together.map(({ log, directives, maxTokens, echo }) => answerOf(() => engine.generate(requestOf(fold(log, directives), log.tokens.length, { maxTokens, echo })))),
      );
      together.forEach((one, index) => {
        const answer = answers[index]!;
        if (answer !== "capacity") check(one, answer, seed);
        else if (pages * pageSize >= longest) throw new Error(`seed ${seed}: refused, though it fits`);
      });
      audit();
      evicted += answers.filter((answer) => answer !== "capacity" && answer.report.recovered_tokens > 0).length;
      refused += answers.filter((answer) => answer === "capacity").length;
      if (random.chance(0.6)) engine.evictUntilFree(random.int(1, pages));
    }
    await engine.dispose();
  }
  // The pools are small enough that cells had to be computed again.
  expect(evicted).toBeGreaterThan(SEEDS / 10);
  expect(refused).toBeGreaterThan(SEEDS / 50);
});
