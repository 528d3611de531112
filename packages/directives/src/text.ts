import { DirectiveError } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { parseDirective } from "./parse.ts";
import type { Registry, Verb } from "./registry.ts";
import { Scanner } from "./scanner.ts";
import { plainForm, type TextForm } from "./text-form.ts";
import type { Boundary, Directive, Target } from "./types.ts";
import { standardRegistry } from "./verbs/index.ts";

export interface TextOptions {
  registry?: Registry | undefined;
}

/**
 * Directives in the text form, one a line:
 *
 *     drop messages 3,4..6 part thinking after 7
 *     splice tokens 120..180 with "[elided]" refresh 16 at 400
 *     drop text message 2 exact "secret" occurrence 2
 *
 * Messages `4..6` are 4, 5 and 6; tokens `120..180` are half-open, as in JSON. `after 7`: behind message 7; `at 400`: before token 400.
 * Strings are JSON strings. Empty lines, and lines that begin with #, say nothing. Reading what was printed gives the same directives.
 */
export function parseText(text: string, { registry = standardRegistry }: TextOptions = {}): Directive[] {
  const directives: Directive[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const scanner = new Scanner(line, index + 1);
    if (scanner.done || line.trimStart().startsWith("#")) continue;
    if (directives.length === LIMITS.directives) {
      throw new DirectiveError("directive_limit", `Line ${index + 1}: expected at most ${LIMITS.directives} directives.`, `line ${index + 1}`);
    }
    directives.push(parseLine(scanner, registry));
  }
  return directives;
}

function parseLine(scanner: Scanner, registry: Registry): Directive {
  const start = scanner.position;
  const verb = registry.get(scanner.word("a verb"));
  if (!verb) return scanner.fail(`one of ${registry.list().map(({ name }) => name).join(", ")}`, start);
  const form = formOf(verb);
  const fields: Record<string, unknown> = { op: verb.name };
  while (!scanner.done) readClause(scanner, verb, form, fields);
  try {
    return parseDirective(fields, registry, "");
  } catch (error) {
    if (!(error instanceof DirectiveError)) throw error;
    return scanner.fail(`a complete and valid "${verb.name}" (${error.param?.replace(/^\./, "")}: ${error.message})`, start);
  }
}

function readClause(scanner: Scanner, verb: Verb, form: TextForm, fields: Record<string, unknown>): void {
  const start = scanner.position;
  const word = scanner.peekWord();
  const read = word === undefined ? undefined : Object.hasOwn(form.clauses, word) ? form.clauses[word] : Object.hasOwn(COMMON, word) ? COMMON[word] : undefined;
  if (!read) return scanner.fail(`a clause of "${verb.name}": ${[...Object.keys(form.clauses), ...commonOf(verb)].join(", ")}`);
  scanner.word("a clause");
  for (const [field, value] of Object.entries(read(scanner))) {
    if (Object.hasOwn(fields, field)) scanner.fail(`"${field}" only once`, start);
    fields[field] = value;
  }
}

/** Clauses of target and boundary, which all verbs share. */
const COMMON: Readonly<Record<string, (scanner: Scanner) => Record<string, unknown>>> = {
  messages: (scanner) => ({ target: readMessages(scanner) }),
  tokens: (scanner) => ({ target: readTokens(scanner) }),
  text: (scanner) => ({ target: readText(scanner) }),
  after: (scanner) => ({ at: { message: scanner.integer("a message number") } }),
  at: (scanner) => ({ at: { token: scanner.integer("a token number") } }),
};

function commonOf(verb: Verb): string[] {
  const fields = fieldsOf(verb);
  return [...(fields.includes("target") ? ["messages", "tokens", "text"] : []), ...(fields.includes("at") ? ["after", "at"] : [])];
}

function readMessages(scanner: Scanner): Target {
  const messages: number[] = [];
  do {
    const start = scanner.position;
    const first = scanner.integer("a message number");
    const last = scanner.takes("..") ? scanner.integer("the last message of the range") : first;
    if (last < first || messages.length + last - first >= LIMITS.messageIds) scanner.fail(`a rising range, and at most ${LIMITS.messageIds} messages`, start);
    for (let id = first; id <= last; id++) messages.push(id);
  } while (scanner.takes(","));
  if (scanner.peekWord() !== "part") return { messages };
  scanner.word("part");
  return { messages, part: scanner.word("content, thinking, tool_calls or tool_result") as "content" };
}

function readTokens(scanner: Scanner): Target {
  const start = scanner.integer("the first token");
  scanner.expect("..");
  return { tokens: [start, scanner.integer("the token behind the last")] };
}

function readText(scanner: Scanner): Target {
  readWord(scanner, "message");
  const message = scanner.integer("a message number");
  readWord(scanner, "exact");
  const exact = scanner.json("a string in quotes") as string;
  if (scanner.peekWord() !== "occurrence") return { text: { message, exact } };
  scanner.word("occurrence");
  return { text: { message, exact, occurrence: scanner.integer("a number from 1") } };
}

function readWord(scanner: Scanner, word: string): void {
  if (scanner.peekWord() !== word) scanner.fail(`"${word}"`);
  scanner.word(word);
}

/** The text form of directives, one a line. */
export function printText(directives: readonly Directive[], { registry = standardRegistry }: TextOptions = {}): string {
  return directives.map((directive) => printDirective(directive, registry)).join("\n");
}

function printDirective(directive: Directive, registry: Registry): string {
  const verb = registry.get(directive.op);
  if (!verb) throw new DirectiveError("directive_unknown", `No verb "${directive.op}" is known, so it cannot be printed.`, "op");
  const { target, at } = directive;
  const clauses = [directive.op, ...(target ? [printTarget(target)] : []), ...formOf(verb).print(directive), ...(at ? [printBoundary(at)] : [])];
  return clauses.join(" ");
}

function printTarget(target: Target): string {
  if ("tokens" in target) return `tokens ${target.tokens[0]}..${target.tokens[1]}`;
  if ("messages" in target) return `messages ${printIds(target.messages)}${target.part === undefined ? "" : ` part ${target.part}`}`;
  const { message, exact, occurrence } = target.text;
  return `text message ${message} exact ${JSON.stringify(exact)}${occurrence === undefined ? "" : ` occurrence ${occurrence}`}`;
}

/** Runs of three and more ids become ranges. */
function printIds(ids: readonly number[]): string {
  const words: string[] = [];
  for (let i = 0; i < ids.length; ) {
    let end = i + 1;
    while (end < ids.length && ids[end] === ids[end - 1]! + 1) end++;
    if (end - i >= 3) words.push(`${ids[i]}..${ids[end - 1]}`);
    else for (let j = i; j < end; j++) words.push(`${ids[j]}`);
    i = end;
  }
  return words.join(",");
}

function printBoundary(at: Boundary): string {
  return "message" in at ? `after ${at.message}` : `at ${at.token}`;
}

function formOf(verb: Verb): TextForm {
  return verb.text ?? plainForm(fieldsOf(verb).filter((field) => field !== "op" && field !== "target" && field !== "at"));
}

/** Names of a verb's fields, in the order of its schema. */
function fieldsOf(verb: Verb): string[] {
  return Object.keys((verb.schema as { shape?: object }).shape ?? {});
}
