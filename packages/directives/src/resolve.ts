import { DirectiveError, type DirectiveErrorCode, shown } from "./errors.ts";
import type { Boundary, Directive, Log, Part, Range, Target } from "./types.ts";

/** What a verb's `lower` may ask of the log. All numbers are those of the request's own log. */
export interface LowerContext {
  readonly log: Log;
  /** The log token that a boundary stands before; an absent one is the end of the log, before the generation header. */
  boundary(at: Boundary | undefined): number;
  /** What a target covers, ascending and merged. It must lie wholly before `at`. Empty only for a part or text without a whole token. */
  ranges(target: Target, at: number): readonly Range[];
  /** Refuses the directive and names one of its fields. */
  fail(code: DirectiveErrorCode, field: string, message: string): never;
}

/** The name of a directive's field in errors: `directives[2].target`. */
export function paramOf(directive: Directive, index: number, field?: string): string {
  const base = directive.param ?? `directives[${index}]`;
  // A dialect's param already names the field that the client wrote; the native field's name would only mislead.
  return field === undefined || directive.param !== undefined ? base : `${base}.${field}`;
}

export function lowerContext(log: Log, directive: Directive, index: number): LowerContext {
  const fail = (code: DirectiveErrorCode, field: string, message: string): never => {
    throw new DirectiveError(code, message, paramOf(directive, index, field));
  };
  return {
    log,
    fail,
    boundary: (at) => resolveBoundary(log, at, fail),
    ranges: (target, at) => resolveTarget(log, target, at, fail),
  };
}

type Fail = LowerContext["fail"];

function resolveBoundary(log: Log, at: Boundary | undefined, fail: Fail): number {
  if (at === undefined) return log.header;
  if ("token" in at) {
    const { token } = at;
    if (token > log.tokens.length) {
      fail("boundary_invalid", "at.token", `Expected a token number up to ${log.tokens.length}, the length of the log; got ${token}.`);
    }
    if (token > log.header && token < log.tokens.length) {
      fail(
        "boundary_invalid",
        "at.token",
        `Token ${token} lies inside the generation header (from ${log.header}); leave "at" out, or name a token up to ${log.header}.`,
      );
    }
    return token;
  }
  const chat = log.chat;
  if (!chat) return fail("boundary_invalid", "at", `A completions request has no messages; expected {"token": n}, got ${shown(at)}.`);
  if (at.message >= chat.messages) {
    fail("boundary_invalid", "at.message", `Expected a message from 0 to ${chat.messages - 1}; got ${at.message}.`);
  }
  return firstOwnedFrom(chat.owners, at.message + 1);
}

function resolveTarget(log: Log, target: Target, at: number, fail: Fail): readonly Range[] {
  if ("tokens" in target) return [tokenRange(log, target.tokens, at, fail)];
  const chat = log.chat;
  if (!chat) return fail("target_invalid", "target", `A completions request has no messages; expected {"tokens": [start, end]}, got ${shown(target)}.`);
  const ranges = "messages" in target ? messageRanges(log, target, fail) : textRanges(log, target.text, fail);
  const last = ranges[ranges.length - 1];
  if (last && last[1] > at) {
    const field = "messages" in target ? "target.messages" : "target.text.message";
    fail("target_invalid", field, `The target reaches token ${last[1]}, behind its boundary before token ${at}; it must lie wholly before it.`);
  }
  return ranges;
}

function tokenRange(log: Log, [start, end]: readonly [number, number], at: number, fail: Fail): Range {
  if (start > end) fail("target_invalid", "target.tokens", `Expected [start, end] with start ≤ end; got [${start}, ${end}].`);
  if (end > log.tokens.length) {
    fail("target_invalid", "target.tokens", `Expected tokens of the log, which has ${log.tokens.length}; got [${start}, ${end}].`);
  }
  if (end > at) {
    fail("target_invalid", "target.tokens", `[${start}, ${end}] reaches behind its boundary before token ${at}; a target must lie wholly before it.`);
  }
  return [start, end];
}

function messageRanges(log: Log, target: { messages: number[]; part?: Part | undefined }, fail: Fail): readonly Range[] {
  const chat = log.chat!;
  const ids = [...new Set(target.messages)].toSorted((a, b) => a - b);
  if (ids.length === 0) fail("target_invalid", "target.messages", "Expected at least one message id; got an empty list.");
  const last = ids[ids.length - 1]!;
  if (last >= chat.messages) {
    fail("target_invalid", "target.messages", `Expected messages from 0 to ${chat.messages - 1}; got ${last}.`);
  }
  const { part } = target;
  if (part === undefined) {
    return mergeRanges(ids.map((id): Range => [firstOwnedFrom(chat.owners, id), firstOwnedFrom(chat.owners, id + 1)]));
  }
  const partOf = chat.part ?? fail("directive_unsupported", "target.part", "This log does not know the parts of its messages; name messages or tokens instead.");
  return mergeRanges(ids.flatMap((id) => partOf(id, part)));
}

function textRanges(log: Log, text: { message: number; exact: string; occurrence?: number | undefined }, fail: Fail): readonly Range[] {
  const chat = log.chat!;
  if (text.message >= chat.messages) {
    fail("target_invalid", "target.text.message", `Expected a message from 0 to ${chat.messages - 1}; got ${text.message}.`);
  }
  const find = chat.text ?? fail("directive_unsupported", "target.text", "This log does not know the text of its messages; name messages or tokens instead.");
  const occurrence = text.occurrence ?? 1;
  const found = find(text.message, text.exact, occurrence);
  if (found === null) {
    return fail("target_invalid", "target.text", `Occurrence ${occurrence} of ${shown(text.exact)} was not found in message ${text.message}.`);
  }
  return mergeRanges(found);
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

/** Ascending, without overlap, touching ranges joined, empty ones left out. */
export function mergeRanges(ranges: readonly Range[]): readonly Range[] {
  const sorted = ranges.filter(([start, end]) => end > start).toSorted((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [start, end] of sorted) {
    const last = merged[merged.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}
