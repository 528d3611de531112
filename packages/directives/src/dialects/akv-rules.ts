import { DirectiveError, shown } from "../errors.ts";
import type { Directive, Target } from "../types.ts";
import { contentText, type DialectMessage } from "./messages.ts";

/** AKV's bounds of its text rules. */
export const AKV_LIMITS = { messages: 4_096, selectors: 1_024, textCharacters: 16 * 1_048_576, patternCharacters: 1_048_576, matches: 1_000_000 } as const;

const SOURCE = "drop_rule";

/** thinking_drop: the reasoning of every assistant message, behind that message. Tags stay. */
export function thinkingDrop(rule: Record<string, unknown>, chat: readonly DialectMessage[]): Directive[] {
  onlyKeys(rule, ["type"], SOURCE);
  const directives = chat.flatMap((message, index): Directive[] => {
    const target = message.role === "assistant" ? thinkingTarget(message, index) : null;
    return target ? [{ op: "drop", target, at: { message: index }, strict: true, source: SOURCE, param: `messages[${index}]` }] : [];
  });
  if (directives.length === 0) refuse("thinking_drop needs an assistant message with reasoning_content or a leading <think> block; there is none.", SOURCE);
  return directives;
}

function thinkingTarget(message: DialectMessage, index: number): Target | null {
  const inline = leadingThought(contentText(message), `messages[${index}].content`);
  const structured = message.reasoning_content ?? "";
  if (structured !== "" && inline !== null) refuse("Expected either reasoning_content or a leading <think> block; got both.", `messages[${index}]`);
  if (structured !== "") return { messages: [index], part: "thinking" };
  return inline === null || inline === "" ? null : { text: { message: index, exact: inline } };
}

/** What stands between <think> and </think> at the beginning of a content; null where there is no block. Any other use of the tags is refused. */
function leadingThought(content: string, param: string): string | null {
  const text = content.trimStart();
  const [opens, closes] = [countOf(text, "<think>"), countOf(text, "</think>")];
  if (opens === 0 && closes === 0) return null;
  if (opens !== 1 || closes !== 1) refuse("Expected one closed <think> block that is not nested.", param);
  const end = text.indexOf("</think>");
  if (!text.startsWith("<think>") || end < "<think>".length) refuse("Expected the <think> block at the beginning of the content.", param);
  return text.slice("<think>".length, end).trim();
}

function countOf(text: string, mark: string): number {
  return text.split(mark).length - 1;
}

/** text_drop: one entry a message, with exact texts of its content to hide behind the latest user message. */
export function textDrop(rule: Record<string, unknown>, chat: readonly DialectMessage[]): Directive[] {
  onlyKeys(rule, ["type", "drop_messages"], SOURCE);
  const entries = rule.drop_messages;
  const field = `${SOURCE}.drop_messages`;
  if (!Array.isArray(entries)) return refuse(`Expected a list with an entry for each message; got ${shown(entries)}.`, field);
  if (entries.length !== chat.length) refuse(`Expected ${chat.length} entries, one for each message; got ${entries.length}.`, field);
  checkSize(chat, field);
  const trigger = chat.findLastIndex(({ role }) => role.toLowerCase() === "user");
  if (trigger < 0) refuse("text_drop acts behind the latest user message; there is none.", field);
  let [patterns, matches] = [0, 0];
  return entries.flatMap((entry: unknown, index) => {
    const param = `${field}[${index}]`;
    const selections = selectionsOf(entry, chat[index]!, param);
    const content = contentText(chat[index]!);
    const spans = selections.map(({ exact, occurrence, param: at }): [number, number] => {
      patterns += exact.length;
      const found = occurrenceOf(content, exact, occurrence);
      matches += found.seen;
      if (found.at < 0) refuse(`Occurrence ${occurrence} of ${shown(exact)} was not found in messages[${index}].content.`, at);
      return [found.at, found.at + exact.length];
    });
    if (patterns > AKV_LIMITS.patternCharacters) refuse(`Expected at most ${AKV_LIMITS.patternCharacters} characters of texts to find.`, field);
    if (matches > AKV_LIMITS.matches) refuse(`Expected at most ${AKV_LIMITS.matches} matches.`, field);
    const whole = spans.length > 0 && coversAll(spans, content.length);
    const targets = whole ? [{ messages: [index] }] : selections.map(({ exact, occurrence }): Target => ({ text: { message: index, exact, occurrence, part: "content" } }));
    return targets.map((target): Directive => ({ op: "drop", target, at: { message: Math.max(index, trigger) }, source: SOURCE, param }));
  });
}

interface Selection {
  exact: string;
  occurrence: number;
  param: string;
}

function selectionsOf(entry: unknown, message: DialectMessage, param: string): Selection[] {
  if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return refuse(`Expected an object with role and content; got ${shown(entry)}.`, param);
  onlyKeys(entry, ["role", "content", "occurrence"], param);
  const { role, content, occurrence } = entry as Record<string, unknown>;
  if (typeof role !== "string" || role.toLowerCase() !== message.role.toLowerCase()) refuse(`Expected the role of the message, "${message.role}"; got ${shown(role)}.`, `${param}.role`);
  const texts = textsOf(content, `${param}.content`);
  if (texts.length === 0) {
    if (occurrence !== undefined) refuse("An occurrence needs a content.", `${param}.occurrence`);
    return [];
  }
  if (message.content !== undefined && message.content !== null && typeof message.content !== "string") {
    refuse("text_drop needs contents that are strings.", param);
  }
  const listed = Array.isArray(content);
  if (occurrence !== undefined && listed !== Array.isArray(occurrence)) refuse("Expected one occurrence for each text.", `${param}.occurrence`);
  const numbers: unknown[] = occurrence === undefined ? texts.map(() => 1) : listed ? (occurrence as unknown[]) : [occurrence];
  if (numbers.length !== texts.length) refuse(`Expected ${texts.length} occurrences, one for each text; got ${numbers.length}.`, `${param}.occurrence`);
  return texts.map((exact, i) => ({
    exact,
    occurrence: positive(numbers[i], listed ? `${param}.occurrence[${i}]` : `${param}.occurrence`),
    param: listed ? `${param}.content[${i}]` : `${param}.content`,
  }));
}

/** Null, "" and a list of empty texts select nothing. */
function textsOf(content: unknown, param: string): string[] {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [content];
  if (!Array.isArray(content) || content.some((text) => typeof text !== "string")) return refuse(`Expected null, a text or a list of texts; got ${shown(content)}.`, param);
  if (content.length > AKV_LIMITS.selectors) refuse(`Expected at most ${AKV_LIMITS.selectors} texts; got ${content.length}.`, param);
  const empty = content.filter((text) => text === "").length;
  if (empty > 0 && empty < content.length) refuse("Empty texts and others cannot be mixed.", param);
  return empty > 0 ? [] : (content as string[]);
}

function positive(value: unknown, param: string): number {
  const number = typeof value === "string" && /^[1-9][0-9]{0,14}$/.test(value.trim()) ? Number(value) : value;
  if (typeof number === "number" && Number.isInteger(number) && number > 0) return number;
  return refuse(`Expected an integer from 1; got ${shown(value)}.`, param);
}

/** Where the n-th occurrence of a text begins (occurrences may overlap), −1 where there is none, and how many were looked at. */
function occurrenceOf(content: string, exact: string, occurrence: number): { at: number; seen: number } {
  let at = -1;
  for (let seen = 1; seen <= occurrence; seen++) {
    at = content.indexOf(exact, at + 1);
    if (at < 0) return { at, seen };
  }
  return { at, seen: occurrence };
}

function coversAll(spans: readonly [number, number][], length: number): boolean {
  let reach = 0;
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    if (start > reach) return false;
    reach = Math.max(reach, end);
  }
  return reach === length;
}

/** What a keep_text_drop renders, and what of it stays. */
export interface Projection {
  /** Messages of the log: the full history, or (forced, where it does not fit) the visible ones as they are. */
  messages: readonly DialectMessage[];
  directives: Directive[];
  /** Why the visible messages were taken as a plain prompt. */
  fallback: string | null;
}

/**
 * keep_text_drop: the request's messages are what stays visible of `full_messages`, matched from right to left by role, protocol fields
 * and the last place where the content occurs. Behind the last message everything else is dropped; a message that stays in part keeps
 * its wrapper and the tokens that cross the border.
 */
export function keepTextDrop(rule: Record<string, unknown>, visible: readonly DialectMessage[]): Projection {
  onlyKeys(rule, ["type", "full_messages", "force"], SOURCE);
  const { full_messages: full, force = false } = rule;
  const field = `${SOURCE}.full_messages`;
  if (typeof force !== "boolean") refuse(`Expected true or false; got ${shown(force)}.`, `${SOURCE}.force`);
  if (!Array.isArray(full) || full.length === 0) return refuse(`Expected the full list of messages; got ${shown(full)}.`, field);
  full.forEach((message: unknown, i) => checkMessage(message, `${field}[${i}]`));
  const history = full as DialectMessage[];
  checkSize(history, field);
  const kept = project(history, visible);
  if (typeof kept === "string") {
    if (force) return { messages: visible, directives: [], fallback: kept };
    return refuse(`${kept} Correct the messages, or send "force": true to use them as a plain prompt.`, field);
  }
  const directives = history.flatMap((message, index) => unkept(message, index, kept.get(index)));
  const at = { message: history.length - 1 };
  return { messages: history, directives: directives.map((target): Directive => ({ op: "drop", target, at, source: SOURCE, param: field })), fallback: null };
}

function checkMessage(message: unknown, param: string): void {
  const role = typeof message === "object" && message !== null ? (message as { role?: unknown }).role : undefined;
  if (typeof role !== "string" || !["system", "user", "assistant", "tool", "function"].includes(role.toLowerCase())) {
    refuse(`Expected a message with the role system, user, assistant or tool; got ${shown(message)}.`, param);
  }
}

/** For each message that stays, where its visible text stands in it; or why the visible messages are no projection. */
function project(full: readonly DialectMessage[], visible: readonly DialectMessage[]): Map<number, [number, number]> | string {
  const kept = new Map<number, [number, number]>();
  const identities = full.map(identityOf);
  let next = full.length - 1;
  for (let i = visible.length - 1; i >= 0; i--) {
    const [identity, text] = [identityOf(visible[i]!), contentText(visible[i]!)];
    while (next >= 0 && (identities[next] !== identity || !contentText(full[next]!).includes(text))) next--;
    if (next < 0) return `messages[${i}] is no visible part of what is left of the history.`;
    const start = contentText(full[next]!).lastIndexOf(text);
    kept.set(next--, [start, start + text.length]);
  }
  return kept;
}

/** What must be the same for two messages to be one, besides the content. */
function identityOf({ role, reasoning_content: reasoning, tool_calls: calls, tool_call_id: id, name }: DialectMessage): string {
  const lower = role.toLowerCase() === "function" ? "tool" : role.toLowerCase();
  if (lower === "assistant") return JSON.stringify([lower, reasoning ?? null, calls ?? null]);
  return JSON.stringify([lower, name ?? null, lower === "tool" ? (id ?? null) : null]);
}

/** Targets that cover what does not stay of a message. */
function unkept(message: DialectMessage, index: number, kept: [number, number] | undefined): Target[] {
  if (!kept) return [{ messages: [index] }];
  const content = contentText(message);
  const before = content.slice(0, kept[0]);
  const behind = content.slice(kept[1]);
  const part = "content" as const;
  return [
    ...(before === "" ? [] : [{ text: { message: index, exact: before, occurrence: 1, part } }]),
    ...(behind === "" ? [] : [{ text: { message: index, exact: behind, occurrence: occurrencesUpTo(content, behind, kept[1]), part } }]),
  ];
}

/** Which occurrence of a text begins at a place. */
function occurrencesUpTo(content: string, exact: string, place: number): number {
  let occurrence = 0;
  for (let at = content.indexOf(exact); at >= 0 && at <= place; at = content.indexOf(exact, at + 1)) occurrence++;
  return occurrence;
}

function checkSize(chat: readonly DialectMessage[], param: string): void {
  if (chat.length > AKV_LIMITS.messages) refuse(`Expected at most ${AKV_LIMITS.messages} messages; got ${chat.length}.`, param);
  const characters = chat.reduce((sum, message) => sum + contentText(message).length, 0);
  if (characters > AKV_LIMITS.textCharacters) refuse(`Expected at most ${AKV_LIMITS.textCharacters} characters of text; got ${characters}.`, param);
}

export function onlyKeys(object: object, known: readonly string[], param: string): void {
  const unknown = Object.keys(object).find((key) => !known.includes(key));
  if (unknown !== undefined) refuse(`Unknown field "${unknown}"; expected ${known.join(", ")}.`, `${param}.${unknown}`);
}

export function refuse(message: string, param: string): never {
  throw new DirectiveError("akv_invalid", message, param);
}
