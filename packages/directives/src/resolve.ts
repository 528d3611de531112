import { DirectiveError, type DirectiveErrorCode, shown } from "./errors.ts";
import { mergeRanges } from "./ranges.ts";
import type { Boundary, ChatLog, Directive, Log, Part, Range, Target, TextTarget } from "./types.ts";

/** What a verb's `lower` may ask of the log. All numbers are those of the request's own log. */
export interface LowerContext {
  readonly log: Log;
  /** The log token that a boundary stands before; an absent one is the end of the log, before the generation header. */
  boundary(at: Boundary | undefined): number;
  /**
   * What a target covers, ascending and merged; it must lie wholly before `at`. None for a part, text or message without a whole
   * token. An empty range of tokens is refused.
   */
  ranges(target: Target, at: number): readonly Range[];
  /** The same as one range, which may be empty (an insertion) when tokens are named. Null where `ranges` has none. */
  contiguous(target: Target, at: number): Range | null;
  /** Tokens of a replacement. */
  replacement(value: string | readonly number[], field: string): Int32Array;
  /** Ends of the assistant messages that follow the boundary, ascending. Refused (by `field`) where there are no messages. */
  turnsAfter(at: number, field: string): readonly number[];
  /** Messages that lie wholly before the boundary. None in completions; roles are "" where the log does not know them. */
  messagesBefore(at: number): readonly MessageSpan[];
  /** Refuses the directive and names one of its fields. */
  fail(code: DirectiveErrorCode, field: string, message: string): never;
}

/** A message as a verb sees it. */
export interface MessageSpan {
  message: number;
  role: string;
  /** Its tokens; empty where it rendered none. */
  tokens: Range;
}

/** The name of a directive's field in errors: `directives[2].target`. */
export function paramOf(directive: Directive, index: number, field?: string): string {
  const base = directive.param ?? `directives[${index}]`;
  // A dialect's param already names the field that the client wrote; the native field's name would only mislead.
  return field === undefined || directive.param !== undefined ? base : `${base}.${field}`;
}

type Fail = Pick<LowerContext, "fail">;

/** The context of one directive: questions go to the resolver, refusals carry the directive's name. */
class DirectiveContext implements LowerContext {
  readonly log: Log;
  readonly #resolver: Resolver;
  readonly #directive: Directive;
  readonly #index: number;

  constructor(resolver: Resolver, log: Log, directive: Directive, index: number) {
    this.log = log;
    this.#resolver = resolver;
    this.#directive = directive;
    this.#index = index;
  }

  fail(code: DirectiveErrorCode, field: string, message: string): never {
    throw new DirectiveError(code, message, paramOf(this.#directive, this.#index, field));
  }

  boundary(at: Boundary | undefined): number {
    return this.#resolver.boundary(at, this);
  }

  ranges(target: Target, at: number): readonly Range[] {
    return this.#resolver.ranges(target, at, this);
  }

  contiguous(target: Target, at: number): Range | null {
    return this.#resolver.contiguous(target, at, this);
  }

  replacement(value: string | readonly number[], field: string): Int32Array {
    return replacementTokens(this.log, value, field, this);
  }

  turnsAfter(at: number, field: string): readonly number[] {
    return this.#resolver.turnsAfter(at, field, this);
  }

  messagesBefore(at: number): readonly MessageSpan[] {
    return this.#resolver.messagesBefore(at);
  }
}

/** Answers verbs' questions about one log. Keeps what many of them ask: where messages begin, and which are turns. */
export class Resolver {
  readonly #log: Log;
  readonly #starts: Int32Array;
  #turns: readonly Range[] | undefined;
  #ordered = false;

  constructor(log: Log) {
    this.#log = log;
    this.#starts = new Int32Array((log.chat?.messages ?? 0) + 2).fill(-1);
  }

  context(directive: Directive, index: number): LowerContext {
    return new DirectiveContext(this, this.#log, directive, index);
  }

  boundary(at: Boundary | undefined, by: Fail): number {
    const { header, tokens, chat } = this.#log;
    if (at === undefined) return header;
    if ("message" in at) {
      if (!chat) return by.fail("boundary_invalid", "at", `A completions request has no messages; expected {"token": n}, got ${shown(at)}.`);
      this.#checkMessage(chat, at.message, "boundary_invalid", "at.message", by);
      return this.#start(chat, at.message + 1);
    }
    const { token } = at;
    if (token > tokens.length) by.fail("boundary_invalid", "at.token", `Expected a token number up to ${tokens.length}, the length of the log; got ${token}.`);
    if (token > header && token < tokens.length) {
      by.fail("boundary_invalid", "at.token", `Token ${token} lies inside the generation header (from ${header}); leave "at" out, or name a token up to ${header}.`);
    }
    return token;
  }

  ranges(target: Target, at: number, by: Fail): readonly Range[] {
    if ("tokens" in target) {
      if (target.tokens[0] === target.tokens[1]) by.fail("target_invalid", "target.tokens", `Expected at least one token; got the empty range ${shown(target.tokens)}.`);
      return [this.#tokenRange(target.tokens, at, by)];
    }
    const { chat } = this.#log;
    if (!chat) return by.fail("target_invalid", "target", `A completions request has no messages; expected {"tokens": [start, end]}, got ${shown(target)}.`);
    const inMessages = "messages" in target;
    const ranges = inMessages ? this.#messageRanges(chat, target.messages, target.part, by) : this.#textRanges(chat, target.text, by);
    const last = ranges[ranges.length - 1];
    if (last && last[1] > at) {
      const field = inMessages ? "target.messages" : "target.text.message";
      by.fail("target_invalid", field, `The target reaches token ${last[1]}, behind its boundary before token ${at}; it must lie wholly before it.`);
    }
    return ranges;
  }

  contiguous(target: Target, at: number, by: Fail): Range | null {
    if ("tokens" in target) return this.#tokenRange(target.tokens, at, by);
    const ranges = this.ranges(target, at, by);
    if (ranges.length > 1) {
      by.fail("target_invalid", "target", `Expected one contiguous range of tokens; the target resolves to ${ranges.length}: ${shown(ranges)}. Use one directive for each.`);
    }
    return ranges[0] ?? null;
  }

  #tokenRange([start, end]: readonly [number, number], at: number, by: Fail): Range {
    const { length } = this.#log.tokens;
    if (start > end) by.fail("target_invalid", "target.tokens", `Expected [start, end] with start ≤ end; got [${start}, ${end}].`);
    if (end > length) by.fail("target_invalid", "target.tokens", `Expected tokens of the log, which has ${length}; got [${start}, ${end}].`);
    if (end > at) by.fail("target_invalid", "target.tokens", `[${start}, ${end}] reaches behind its boundary before token ${at}; a target must lie wholly before it.`);
    return [start, end];
  }

  #messageRanges(chat: ChatLog, messages: readonly number[], part: Part | undefined, by: Fail): readonly Range[] {
    if (messages.length === 0) by.fail("target_invalid", "target.messages", "Expected at least one message id; got an empty list.");
    const ids = ascending(messages);
    this.#checkMessage(chat, ids[ids.length - 1]!, "target_invalid", "target.messages", by);
    if (part !== undefined) {
      const partOf = chat.part ?? by.fail("directive_unsupported", "target.part", "This log does not know the parts of its messages; name messages or tokens instead.");
      return mergeRanges(ids.flatMap((id) => partOf(id, part)));
    }
    const ranges: [number, number][] = [];
    for (const id of ids) {
      const [start, end] = [this.#start(chat, id), this.#start(chat, id + 1)];
      const last = ranges[ranges.length - 1];
      if (last && last[1] === start) last[1] = end;
      else if (end > start) ranges.push([start, end]);
    }
    return ranges;
  }

  #textRanges(chat: ChatLog, text: TextTarget, by: Fail): readonly Range[] {
    this.#checkMessage(chat, text.message, "target_invalid", "target.text.message", by);
    const find = chat.text ?? by.fail("directive_unsupported", "target.text", "This log does not know the text of its messages; name messages or tokens instead.");
    const occurrence = text.occurrence ?? 1;
    const found = find(text.message, text.exact, occurrence, text.part);
    if (found === null) {
      return by.fail("target_invalid", "target.text", `Occurrence ${occurrence} of ${shown(text.exact)} was not found in message ${text.message}.`);
    }
    return mergeRanges(found);
  }

  turnsAfter(at: number, field: string, by: Fail): readonly number[] {
    const { chat } = this.#log;
    if (!chat) return by.fail("directive_invalid", field, "A completions request has no turns; expected seconds, or a boundary by token.");
    const roles = chat.roles ?? by.fail("directive_unsupported", field, "This log does not know the roles of its messages, so it cannot count turns.");
    this.#turns ??= roles.flatMap((role, message): Range[] => {
      const [start, end] = [this.#start(chat, message), this.#start(chat, message + 1)];
      return role === "assistant" && end > start ? [[start, end]] : [];
    });
    const first = this.#turns.findIndex(([start]) => start >= at);
    return first < 0 ? [] : this.#turns.slice(first).map(([, end]) => end);
  }

  messagesBefore(at: number): readonly MessageSpan[] {
    const { chat } = this.#log;
    const spans: MessageSpan[] = [];
    if (!chat) return spans;
    for (let message = 0; message < chat.messages && this.#start(chat, message + 1) <= at; message++) {
      spans.push({ message, role: chat.roles?.[message] ?? "", tokens: [this.#start(chat, message), this.#start(chat, message + 1)] });
    }
    return spans;
  }

  #checkMessage(chat: ChatLog, message: number, code: DirectiveErrorCode, field: string, by: Fail): void {
    if (message >= chat.messages) by.fail(code, field, `Expected a message from 0 to ${chat.messages - 1}; got ${message}.`);
  }

  /** First token of a message, or of what follows where it has none. */
  #start(chat: ChatLog, message: number): number {
    if (!this.#ordered) this.#checkOrder(chat.owners);
    const known = this.#starts[message]!;
    return known >= 0 ? known : (this.#starts[message] = firstOwnedFrom(chat.owners, message));
  }

  #checkOrder(owners: Int32Array): void {
    for (let token = 1; token < owners.length; token++) {
      if (owners[token]! >= owners[token - 1]!) continue;
      throw new DirectiveError(
        "log_invalid",
        `Message ${owners[token]} is rendered behind message ${owners[token - 1]} (token ${token}): the template reorders messages, so no boundary between them can be named. Put it where it is rendered.`,
        `messages[${owners[token]}]`,
      );
    }
    this.#ordered = true;
  }
}

function replacementTokens(log: Log, value: string | readonly number[], field: string, by: Fail): Int32Array {
  if (typeof value === "string") {
    if (value === "") return new Int32Array(0);
    const tokenize = log.tokenize ?? by.fail("directive_unsupported", field, "This log has no tokenizer; give the replacement as token ids.");
    return Int32Array.from(tokenize(value));
  }
  const { vocabulary } = log;
  const wrong = vocabulary === undefined ? -1 : value.findIndex((id) => id >= vocabulary);
  if (wrong >= 0) by.fail("replacement_invalid", `${field}[${wrong}]`, `Expected a token id below ${vocabulary}; got ${value[wrong]}.`);
  return Int32Array.from(value);
}

/** Ids in ascending order, each once. Most lists are that already. */
function ascending(ids: readonly number[]): readonly number[] {
  for (let i = 1; i < ids.length; i++) if (ids[i]! <= ids[i - 1]!) return [...new Set(ids)].toSorted((a, b) => a - b);
  return ids;
}

/** First token whose owner is at least `message` (binary search; owners never fall). */
export function firstOwnedFrom(owners: Int32Array, message: number): number {
  let low = 0;
  let high = owners.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (owners[middle]! >= message) high = middle;
    else low = middle + 1;
  }
  return low;
}
