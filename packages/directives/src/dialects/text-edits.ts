import { DirectiveError } from "../errors.ts";
import type { Boundary, Directive } from "../types.ts";
import { contentText, type DialectMessage, type DialectReading } from "./messages.ts";

/** Entries of the table in which two lists are compared. */
const CELLS_MAX = 4_000_000;

/**
 * Two lists of messages, before and after somebody edited them, as directives: a message that is gone is spliced out, a content that
 * changed has the changed middle replaced. Messages are paired from left to right by role and protocol fields. What no directive can
 * say (a new message, a changed role or call) is named in the losses.
 */
export function diffMessages(before: readonly DialectMessage[], after: readonly DialectMessage[], at?: Boundary): DialectReading<Directive[]> {
  const edits = editsBetween(before, after);
  return { value: edits.value.map((edit) => directiveOf(edit, at)), losses: edits.losses };
}

/** What became of one message: gone, or another content. */
interface MessageEdit {
  message: number;
  /** Null: the message is gone. */
  content: string | null;
  was: string;
}

function editsBetween(before: readonly DialectMessage[], after: readonly DialectMessage[]): DialectReading<MessageEdit[]> {
  const losses: string[] = [];
  const value: MessageEdit[] = [];
  const pairs = pairUp(before, after);
  const used = new Set(pairs.values());
  after.forEach((_, i) => {
    if (!used.has(i)) losses.push(`message ${i} of the edited list stands for none of the original; a directive cannot add a message`);
  });
  before.forEach((message, i) => {
    const partner = pairs.get(i);
    const was = contentText(message);
    const now = partner === undefined ? null : contentText(after[partner]!);
    if (now === was) return;
    if (now !== null && was === "") losses.push(`message ${i} had no content; a directive cannot give it one`);
    else value.push({ message: i, content: now, was });
  });
  return { value, losses };
}

/**
 * Longest common subsequence by identity, in which equal contents count double: an unchanged message is not taken for a changed one.
 * Common ends are paired first, so that the table is as small as the edit.
 */
function pairUp(before: readonly DialectMessage[], after: readonly DialectMessage[]): Map<number, number> {
  const [ids, texts] = [before.map(identityOf), before.map(contentText)];
  const [otherIds, otherTexts] = [after.map(identityOf), after.map(contentText)];
  const equal = (i: number, j: number) => ids[i] === otherIds[j] && texts[i] === otherTexts[j];
  const pairs = new Map<number, number>();
  let start = 0;
  while (start < Math.min(before.length, after.length) && equal(start, start)) pairs.set(start, start++);
  let end = 0;
  while (end < Math.min(before.length, after.length) - start && equal(before.length - 1 - end, after.length - 1 - end)) {
    pairs.set(before.length - 1 - end, after.length - 1 - end++);
  }
  const score = (i: number, j: number) => (ids[i] === otherIds[j] ? (texts[i] === otherTexts[j] ? 2 : 1) : 0);
  const inner = align(before.length - start - end, after.length - start - end, (i, j) => score(start + i, start + j));
  for (const [row, column] of inner) pairs.set(start + row, start + column);
  return pairs;
}

/** Pairs of the alignment with the greatest score. */
function align(rows: number, columns: number, score: (i: number, j: number) => number): [number, number][] {
  if (rows * columns > CELLS_MAX) throw new DirectiveError("directive_limit", `Two lists that differ in ${rows} and ${columns} messages are too different to compare; edit less at a time.`);
  const width = columns + 1;
  const best = new Int32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      const paired = score(i, j) > 0 ? score(i, j) + best[(i + 1) * width + j + 1]! : 0;
      best[i * width + j] = Math.max(paired, best[(i + 1) * width + j]!, best[i * width + j + 1]!);
    }
  }
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < rows && j < columns; ) {
    const value = best[i * width + j]!;
    if (score(i, j) > 0 && value === score(i, j) + best[(i + 1) * width + j + 1]!) pairs.push([i++, j++]);
    else if (value === best[(i + 1) * width + j]!) i++;
    else j++;
  }
  return pairs;
}

function identityOf({ role, reasoning_content: reasoning, tool_calls: calls, tool_call_id: id, name }: DialectMessage): string {
  return JSON.stringify([role, reasoning ?? null, calls ?? null, id ?? null, name ?? null]);
}

function directiveOf({ message, content, was }: MessageEdit, at: Boundary | undefined): Directive {
  const place = { mode: "amortize", source: "text_edit", ...(at ? { at } : {}) };
  if (content === null) return { op: "splice", target: { messages: [message] }, with: "", ...place };
  const { exact, occurrence, replacement } = changedMiddle(was, content);
  return { op: "splice", target: { text: { message, exact, occurrence } }, with: replacement, ...place };
}

/** The smallest stretch of a text that an edit replaced. It is never empty: an insertion takes a character beside it along. */
function changedMiddle(was: string, now: string): { exact: string; occurrence: number; replacement: string } {
  let start = 0;
  const most = Math.min(was.length, now.length);
  while (start < most && was[start] === now[start]) start++;
  let end = 0;
  while (end < most - start && was[was.length - 1 - end] === now[now.length - 1 - end]) end++;
  if (start + end === was.length && start > 0) start--;
  else if (start + end === was.length) end--;
  const exact = was.slice(start, was.length - end);
  let occurrence = 1;
  for (let at = was.indexOf(exact); at >= 0 && at < start; at = was.indexOf(exact, at + 1)) occurrence++;
  return { exact, occurrence, replacement: now.slice(start, now.length - end) };
}

/** A policy in Leyline's sense: what the messages of a turn should look like to the model. */
export type Transform = (messages: readonly DialectMessage[], turn: number) => readonly DialectMessage[];

/**
 * The directives that a `transform(messages, turn)` policy comes to, unchanged: it is run before each answer of the conversation, as it
 * was then, and what it newly edits stands at that boundary. A content that it edits again is replaced as a whole.
 */
export function readTransform(messages: readonly DialectMessage[], transform: Transform): DialectReading<Directive[]> {
  const losses = new Set<string>();
  const standing = new Map<number, string | null>();
  const value: Directive[] = [];
  momentsOf(messages).forEach((moment, turn) => {
    const before = messages.slice(0, moment);
    const edits = editsBetween(before, transform(before, turn));
    for (const loss of edits.losses) losses.add(loss);
    const now = new Map(edits.value.map((edit) => [edit.message, edit]));
    for (const [message, content] of standing) {
      const edit = now.get(message);
      if (content === null ? edit?.content !== null : edit === undefined) losses.add(`message ${message}: an edit cannot be taken back`);
    }
    for (const edit of now.values()) {
      const known = standing.get(edit.message);
      if (known === null || known === edit.content) continue;
      const at = { message: moment - 1 };
      value.push(known === undefined || edit.content === null ? directiveOf(edit, at) : replacedAgain(edit.message, edit.content, messages[edit.message]!.role, at));
      standing.set(edit.message, edit.content);
    }
  });
  return { value, losses: [...losses] };
}

/** A second edit replaces the content whole, with what the first one put into it. */
function replacedAgain(message: number, content: string, role: string, at: Boundary): Directive {
  const part = role === "tool" ? "tool_result" : "content";
  return { op: "splice", target: { messages: [message], part }, with: content, mode: "amortize", source: "text_edit", at };
}

/** The messages before which an answer was, or is to be, written. */
function momentsOf(messages: readonly DialectMessage[]): number[] {
  const ids = [...messages.keys()].filter((i) => i > 0 && messages[i]!.role === "assistant");
  return [...ids, messages.length];
}
