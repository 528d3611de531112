import { DirectiveError, shown } from "./errors.ts";

/** Reads one line of the text form from left to right. Every method moves on past what it read, and says where it found something else. */
export class Scanner {
  readonly #line: string;
  readonly #number: number;
  #at = 0;

  /** `number` counts lines from 1. */
  constructor(line: string, number: number) {
    this.#line = line;
    this.#number = number;
    this.#skipBlanks();
  }

  get done(): boolean {
    return this.#at === this.#line.length;
  }

  /** Where reading stands, for an error that is found later. */
  get position(): number {
    return this.#at;
  }

  /** Reads a word of letters, digits and underscores. */
  word(expected: string): string {
    return this.#match(/[A-Za-z_][A-Za-z0-9_]*/y, expected);
  }

  /** The word that comes next, without reading it; undefined where none does. */
  peekWord(): string | undefined {
    const pattern = /[A-Za-z_][A-Za-z0-9_]*/y;
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#line)?.[0];
  }

  /** Whether a number comes next. */
  atNumber(): boolean {
    return /[0-9]/.test(this.#line[this.#at] ?? "");
  }

  integer(expected: string): number {
    const start = this.#at;
    const digits = this.#match(/(?:0|[1-9][0-9]*)(?![0-9A-Za-z_])/y, expected);
    const value = Number(digits);
    if (!Number.isSafeInteger(value)) this.fail(expected, start);
    return value;
  }

  /** Reads a mark such as ".." or "," if it comes next. */
  takes(mark: string): boolean {
    if (!this.#line.startsWith(mark, this.#at)) return false;
    this.#at += mark.length;
    this.#skipBlanks();
    return true;
  }

  expect(mark: string): void {
    if (!this.takes(mark)) this.fail(shown(mark));
  }

  /** Reads a JSON value: its end is found by brackets and quotes, then JSON decides. */
  json(expected: string): unknown {
    const start = this.#at;
    this.#at = this.#jsonEnd(start);
    try {
      const value: unknown = JSON.parse(this.#line.slice(start, this.#at));
      this.#skipBlanks();
      return value;
    } catch {
      return this.fail(expected, start);
    }
  }

  /** Refuses the text: what was expected at a place, and what stands there. */
  fail(expected: string, at = this.#at): never {
    const rest = this.#line.slice(at, at + 24);
    const came = rest === "" ? "the end of the line" : shown(rest);
    throw new DirectiveError("text_syntax", `Line ${this.#number}, column ${at + 1}: expected ${expected}; got ${came}.`, `line ${this.#number}, column ${at + 1}`);
  }

  #match(pattern: RegExp, expected: string): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#line)?.[0];
    if (found === undefined) return this.fail(expected);
    this.#at += found.length;
    this.#skipBlanks();
    return found;
  }

  #skipBlanks(): void {
    while (this.#line[this.#at] === " " || this.#line[this.#at] === "\t") this.#at++;
  }

  #jsonEnd(start: number): number {
    let depth = 0;
    let quoted = false;
    for (let i = start; i < this.#line.length; i++) {
      const character = this.#line[i]!;
      if (quoted) {
        if (character === "\\") i++;
        else if (character === '"') quoted = false;
      } else if (character === '"') quoted = true;
      else if (character === "[" || character === "{") depth++;
      else if (character === "]" || character === "}") depth--;
      else if (depth === 0 && (character === " " || character === "\t")) return i;
      if (depth <= 0 && !quoted && (character === '"' || character === "]" || character === "}")) return i + 1;
    }
    return this.#line.length;
  }
}
