import { randomUUID } from "node:crypto";

/** A call of a tool that the model wrote. */
export interface AnsweredCall {
  /** Place among the calls of the answer. */
  index: number;
  id: string;
  name: string;
  /** The JSON text that the model wrote, as it wrote it: numbers keep every digit. */
  arguments: string;
}

/** What of an answer is certain: first its text, then calls. */
export interface Shown {
  text: string;
  calls: AnsweredCall[];
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
/** The beginning of an answer that is a call without its marks, and what may become one. */
const BARE = /^\s*\{\s*"name"\s*:/;
const MAY_BE_BARE = /^\s*(?:\{\s*(?:"(?:n(?:a(?:m(?:e(?:"\s*)?)?)?)?)?)?)?$/;

/**
 * Reads the text of an answer for calls in the form `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Hermes, Qwen). A call is shown
 * when it is complete and right; until then it is held back, since whatever turns out to be none is text, to the letter. White space
 * around a call is the template's and no text. Small models leave the marks out: an answer that begins with such objects is calls
 * where they name tools of the request. What `push` and `end` give is the same for every way of cutting the answer.
 */
export class ToolCallReader {
  readonly #tools: ReadonlySet<string>;
  #begun = false;
  /** White space, or the beginning of a call: what may still belong to a call. */
  #held = "";
  #call: CallScan | null = null;
  #afterCall = false;
  #count = 0;

  /** @param tools names of the request's tools, for calls without marks */
  constructor(tools: Iterable<string> = []) {
    this.#tools = new Set(tools);
  }

  push(text: string): Shown[] {
    return this.#read(text, false);
  }

  /** The answer has ended. A call that lacks only its end mark is one. */
  end(): Shown[] {
    return this.#read("", true);
  }

  #read(more: string, ended: boolean): Shown[] {
    const shown: Shown[] = [];
    this.#held += more;
    for (;;) {
      const next = this.#call === null ? this.#readText(ended) : this.#readCall(this.#call, ended);
      if (next === null) return join(shown);
      shown.push(next);
    }
  }

  /** Outside a call: text up to the next one, or up to what may become one. Null where nothing more is certain. */
  #readText(ended: boolean): Shown | null {
    if (this.#afterCall) this.#held = this.#held.trimStart();
    if (!this.#begun && !ended && MAY_BE_BARE.test(this.#held)) return null;
    if (this.#held === "") return null;
    this.#afterCall = false;
    const isBare = !this.#begun && BARE.test(this.#held);
    this.#begun = true;
    if (isBare) {
      const start = spaces(this.#held);
      this.#call = new CallScan(this.#held.slice(0, start), false);
      this.#held = this.#held.slice(start);
      return { text: "", calls: [] };
    }
    const open = this.#held.indexOf(OPEN);
    const end = open >= 0 ? this.#held.slice(0, open).trimEnd().length : ended ? this.#held.length : certainLength(this.#held);
    const text = this.#held.slice(0, end);
    const behind = open >= 0 ? open + OPEN.length : end;
    if (open >= 0) this.#call = new CallScan(this.#held.slice(end, behind), true);
    this.#held = this.#held.slice(behind);
    return open < 0 && text === "" ? null : { text, calls: [] };
  }

  /** Inside what may be a call, which begins with the white space before its mark. */
  #readCall(scan: CallScan, ended: boolean): Shown | null {
    const end = scan.push(this.#held) ?? (ended ? scan.end() : null);
    this.#held = end?.rest ?? "";
    if (end === null) return null;
    this.#call = null;
    const call = end.json === null ? null : readCall(end.json);
    if (call === null || (!scan.isMarked && !this.#tools.has(call.name))) return { text: end.raw, calls: [] };
    this.#afterCall = true;
    // Where one was without marks, the next may be.
    this.#begun = scan.isMarked;
    return { text: "", calls: [{ index: this.#count++, id: `call_${randomUUID().replaceAll("-", "").slice(0, 24)}`, ...call }] };
  }
}

/** Neighbours in one: text, then calls. */
function join(shown: readonly Shown[]): Shown[] {
  const joined: Shown[] = [];
  for (const { text, calls } of shown) {
    if (text === "" && calls.length === 0) continue;
    const last = joined.at(-1);
    if (last !== undefined && (text === "" || last.calls.length === 0)) {
      last.text += text;
      last.calls.push(...calls);
    } else joined.push({ text, calls: [...calls] });
  }
  return joined;
}

/** Length of a text without the tail that may become white space before a call, or its mark. */
function certainLength(text: string): number {
  let mark = 0;
  for (let length = Math.min(OPEN.length - 1, text.length); length > 0 && mark === 0; length--) if (text.endsWith(OPEN.slice(0, length))) mark = length;
  return text.slice(0, text.length - mark).trimEnd().length;
}

interface CallEnd {
  /** What the attempt took, to the letter. */
  raw: string;
  /** Its object, which may still be no call; null where there is none. */
  json: string | null;
  /** What it did not take. */
  rest: string;
}

/** Follows one object from its first brace to its last, looking at each unit once, then the end mark. */
class CallScan {
  readonly isMarked: boolean;
  #before: string;
  readonly #object: string[] = [];
  /** What came behind the object; null inside it. */
  #behind: string | null = null;
  #depth = 0;
  #inString = false;
  #escaped = false;

  /**
   * @param opening the mark of a call, with the white space before it
   * @param isMarked whether there is one, and an end mark to wait for
   */
  constructor(opening: string, isMarked: boolean) {
    this.#before = opening;
    this.isMarked = isMarked;
  }

  /** Where the call ends; null while it may go on. */
  push(text: string): CallEnd | null {
    let at = 0;
    if (this.#object.length === 0) {
      at = spaces(text);
      this.#before += text.slice(0, at);
      if (at === text.length) return null;
      if (text[at] !== "{") return { raw: this.#before, json: null, rest: text.slice(at) };
    }
    if (this.#behind === null) {
      const end = this.#endOfObject(text, at);
      this.#object.push(text.slice(at, end));
      if (this.#depth > 0) return null;
      this.#behind = "";
      at = end;
    }
    this.#behind += text.slice(at);
    if (!this.isMarked) return this.#ending(0);
    const tail = this.#behind.slice(spaces(this.#behind));
    if (CLOSE.startsWith(tail) && tail !== CLOSE) return null;
    return tail.startsWith(CLOSE) ? this.#ending(this.#behind.length - tail.length + CLOSE.length) : { ...this.#ending(0), json: null };
  }

  /** The answer ended inside it. */
  end(): CallEnd {
    return this.#behind === null ? { ...this.#ending(0), json: null } : this.#ending(this.#behind.length);
  }

  /** An end with so much of what came behind the object. */
  #ending(length: number): CallEnd {
    const json = this.#object.join("");
    const behind = this.#behind ?? "";
    return { raw: this.#before + json + behind.slice(0, length), json, rest: behind.slice(length) };
  }

  /** Behind the last brace, or the end of the text. */
  #endOfObject(text: string, from: number): number {
    for (let at = from; at < text.length; at++) {
      const unit = text[at];
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (unit === "\\") this.#escaped = true;
        else if (unit === '"') this.#inString = false;
      } else if (unit === '"') this.#inString = true;
      else if (unit === "{" || unit === "[") this.#depth++;
      else if ((unit === "}" || unit === "]") && --this.#depth === 0) return at + 1;
    }
    return text.length;
  }
}

/** Units of white space that a text begins with. */
const spaces = (text: string): number => text.length - text.trimStart().length;

/** Name and arguments of a call, or null where it is none. */
function readCall(json: string): Pick<AnsweredCall, "name" | "arguments"> | null {
  const call = parsed(json) as { name?: unknown; arguments?: unknown } | undefined;
  if (typeof call?.name !== "string" || call.name === "") return null;
  const { name, arguments: given } = call;
  if (given === undefined || given === null) return { name, arguments: "{}" };
  if (typeof given === "string") return isObject(parsed(given)) ? { name, arguments: given } : null;
  return isObject(given) ? { name, arguments: memberText(json, "arguments") } : null;
}

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** The text of a member's value, an object, in the text of a valid object. Of two members with one name it is the last, as in JSON.parse. */
function memberText(json: string, name: string): string {
  let value = "";
  let depth = 0;
  let start = -1;
  let string = "";
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:]/g)) {
    if (token === ":" && depth === 1 && JSON.parse(string) === name) start = index + 1;
    else if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") {
      depth--;
      if (depth === 1 && start >= 0) value = json.slice(start, index + 1).trim();
      if (depth === 1) start = -1;
    } else if (token !== ":") string = token;
  }
  return value;
}
