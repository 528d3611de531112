import { fold, type Directive, type Log } from "@palimpsest/directives";
import type { Generation } from "@palimpsest/engine";
import { expect } from "vitest";
import { randomDirectives, type Random } from "../../../directives/test/random-logs.ts";
import { collect, requestOf, type Answered } from "./harness.ts";
import { expectedAnswer } from "./oracle.ts";

export const VOCABULARY = 61;

export interface Case {
  log: Log;
  directives: Directive[];
  maxTokens: number;
  echo: boolean;
}

/** Two to four logs that begin alike, each with its own edits, some of them shared. */
export function family(random: Random): Case[] {
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
export async function answerOf(generate: () => Generation): Promise<Answered | "capacity"> {
  try {
    return await collect(generate());
  } catch (error) {
    if ((error as { code?: unknown }).code === "pages_exceeded") return "capacity";
    throw error;
  }
}

export function check({ log, directives, maxTokens, echo }: Case, answer: Answered, seed: number): void {
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

/** The request of a case. */
export const requestFor = ({ log, directives, maxTokens, echo }: Case) => requestOf(fold(log, directives), log.tokens.length, { maxTokens, echo });
