import { fold, type Directive, type Fold, type Log } from "@palimpsest/directives";
import { randomDirectives, type Random, withParts } from "../../packages/directives/test/random-logs.ts";

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

/** Not where a forget leaves no token, or a message goes on behind a boundary that was its end. */
function stands(log: Log, directives: readonly Directive[]): boolean {
  try {
    fold(log, directives);
    return true;
  } catch {
    return false;
  }
}

const ALL_VERBS = { reposition: 0.15, splice: 0.2, refresh: 0.1, forget: 0.12, scratch: 0.1, decay: 0.1, pin: 0.05 };

/** The same tokens as messages of these lengths, one after another; of a longer log the beginning is the same. The header is a token or none. */
function chatOf(log: Log, lengths: readonly number[]): Log {
  const header = log.tokens.length > 3 && log.tokens[0]! % 2 === 0 ? log.tokens.length - 1 : log.tokens.length;
  const owners = lengths.flatMap((length, message) => Array.from({ length }, () => message)).slice(0, header);
  const messages = owners.at(-1)! + 1;
  const chat = {
    messages,
    owners: Int32Array.from({ length: log.tokens.length }, (_, token) => owners[token] ?? messages),
    roles: Array.from({ length: messages }, (_, message) => ["user", "assistant", "tool"][message % 3]!),
  };
  return withParts({ ...log, header, chat });
}

/**
 * Two to four logs that begin alike, each with up to eight edits: drops and repositions, nested, repeated, of head and tail, at
 * boundaries in the middle; in most of the families all other verbs too. In half of them they are chats, whose targets are messages, parts and texts as well.
 */
export function family(random: Random, options: FamilyOptions): Case[] {
  const { text } = options;
  const tokens = (count: number) => {
    const start = random.int(0, text.length - 1);
    return Array.from({ length: count }, (_, i) => text[(start + i) % text.length]!);
  };
  const lengths = random.chance(0.5) ? Array.from({ length: options.tokensMax }, () => random.int(1, 12)) : null;
  const logOf = (list: readonly number[]): Log => {
    const log = { tokens: Int32Array.from(list), header: list.length, contextLength: options.contextLength };
    return lengths === null ? log : chatOf(log, lengths);
  };
  const mix = random.pick([{ reposition: 0.35 }, { reposition: 0.3, splice: 0.2, refresh: 0.1, scratch: 0.1 }, { reposition: 0.2, splice: 0.1, forget: 0.3 }, ALL_VERBS]);
  const directivesFor = (log: Log) => {
    const directives = randomDirectives(random, log, mix, 8);
    for (const directive of directives) if (Array.isArray(directive.with)) directive.with = tokens(directive.with.length);
    return stands(log, directives) ? directives : [];
  };
  const base = tokens(random.int(4, Math.ceil(options.tokensMax * 0.85)));
  const shared = directivesFor(logOf(base)).map((directive) => Object.assign({ at: { token: base.length } }, directive));
  return Array.from({ length: random.int(2, 4) }, (_, index) => {
    const kept = index === 0 || random.chance(0.5) ? base.length : random.int(1, base.length);
    const log = logOf([...base.slice(0, kept), ...tokens(random.int(0, Math.ceil(options.tokensMax * 0.15)))]);
    const directives = kept === base.length && random.chance(0.6) && stands(log, shared) ? shared : directivesFor(log);
    return { log, directives, fold: fold(log, directives), maxTokens: random.int(1, options.answerMax), echo: random.chance(0.6) };
  });
}
