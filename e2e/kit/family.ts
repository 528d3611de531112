import { fold, type Directive, type Fold, type Log } from "@palimpsest/directives";
import { randomDirectives, type Random } from "../../packages/directives/test/random-logs.ts";

export interface Case {
  log: Log;
  directives: Directive[];
  fold: Fold;
  maxTokens: number;
  echo: boolean;
}

export interface FamilyOptions {
  /** Tokens to make logs of, in runs from random places; a model's vocabulary where any will do. */
  text: ArrayLike<number>;
  /** Tokens of a log, about. */
  tokensMax: number;
  contextLength: number;
  answerMax: number;
}

/**
 * Two to four logs that begin alike, each with up to eight edits: drops and repositions, nested, repeated, of head and tail, at
 * boundaries in the middle; in half of the families splices, refreshes, scratches and forgets too.
 */
export function family(random: Random, options: FamilyOptions): Case[] {
  const { text } = options;
  const tokens = (count: number) => {
    const start = random.int(0, text.length - 1);
    return Array.from({ length: count }, (_, i) => text[(start + i) % text.length]!);
  };
  const logOf = (list: readonly number[]): Log => ({ tokens: Int32Array.from(list), header: list.length, contextLength: options.contextLength });
  const mix = random.pick([{ reposition: 0.35 }, { reposition: 0.35 }, { reposition: 0.3, splice: 0.2, refresh: 0.1, scratch: 0.1 }, { reposition: 0.2, splice: 0.1, forget: 0.3 }]);
  const directivesFor = (log: Log) => {
    const directives = randomDirectives(random, log, mix, 8);
    for (const directive of directives) if (Array.isArray(directive.with)) directive.with = tokens(directive.with.length);
    try {
      fold(log, directives);
      return directives;
    } catch {
      return []; // A forget that leaves no token.
    }
  };
  const base = tokens(random.int(4, Math.ceil(options.tokensMax * 0.85)));
  const shared = directivesFor(logOf(base)).map((directive) => Object.assign({ at: { token: base.length } }, directive));
  return Array.from({ length: random.int(2, 4) }, (_, index) => {
    const kept = index === 0 || random.chance(0.5) ? base.length : random.int(1, base.length);
    const log = logOf([...base.slice(0, kept), ...tokens(random.int(0, Math.ceil(options.tokensMax * 0.15)))]);
    const directives = kept === base.length && random.chance(0.6) ? shared : directivesFor(log);
    return { log, directives, fold: fold(log, directives), maxTokens: random.int(1, options.answerMax), echo: random.chance(0.6) };
  });
}
