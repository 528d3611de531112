import { EngineError } from "./errors.ts";
import { Utf8Stream } from "./tokenizer/utf8-stream.ts";

/** Bytes of tokens, as a tokenizer knows them. Control tokens have whatever bytes they shall be shown as; none is fine. */
export interface TokenBytes {
  bytes(id: number): Uint8Array;
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** What one more token makes certain. */
export interface AssembledText {
  text: string;
  /** A stop string was seen; neither it nor anything behind it is part of the text. */
  stopped: boolean;
}

/**
 * Turns the tokens of one answer into text. Bytes of a character that is not complete are held, bytes that can never become one are
 * replaced at once (U+FFFD), and the longest tail that may still become a stop string is held back. What `push` and `end` give,
 * concatenated, is the same for every grouping of tokens, and no part of it ends within a surrogate pair.
 *
 * A stop string counts as seen with its last character; of several that end there, the longest is cut.
 */
export class TextAssembly {
  readonly #tokens: TokenBytes;
  readonly #stops: readonly string[];
  readonly #characters = new Utf8Stream();
  /** Text that may still be the beginning of a stop string. */
  #held = "";
  #stop: string | null = null;

  constructor(tokens: TokenBytes, stops: readonly string[] = []) {
    stops.forEach((stop, index) => {
      if (stop === "" || LONE_SURROGATE.test(stop)) throw new EngineError("request_invalid", "a stop string is well-formed text of at least one character", `stop[${index}]`);
    });
    this.#tokens = tokens;
    this.#stops = stops;
  }

  get stopped(): boolean {
    return this.#stop !== null;
  }

  /** The stop string that was seen. */
  get stop(): string | null {
    return this.#stop;
  }

  push(id: number): AssembledText {
    return this.#add(this.#characters.push(this.#tokens.bytes(id)));
  }

  /** The answer has ended: what was held, an incomplete character as U+FFFD. */
  end(): string {
    const { text } = this.#add(this.#characters.end());
    const rest = this.#held;
    this.#held = "";
    return this.stopped ? text : text + rest;
  }

  #add(more: string): AssembledText {
    if (this.stopped) return { text: "", stopped: true };
    const text = this.#held + more;
    const seen = firstStop(text, this.#stops);
    if (seen !== null) {
      this.#stop = seen.stop;
      this.#held = "";
      return { text: text.slice(0, seen.at), stopped: true };
    }
    const certain = text.length - heldLength(text, this.#stops);
    this.#held = text.slice(certain);
    return { text: text.slice(0, certain), stopped: false };
  }
}

/** The stop string that is complete first, and where it begins; null where none is. */
function firstStop(text: string, stops: readonly string[]): { stop: string; at: number } | null {
  let seen: { stop: string; at: number } | null = null;
  let end = Infinity;
  for (const stop of stops) {
    const at = text.indexOf(stop);
    if (at < 0 || at + stop.length > end) continue;
    if (seen === null || at + stop.length < end || at < seen.at) seen = { stop, at };
    end = at + stop.length;
  }
  return seen;
}

/** Length of the longest tail that is a beginning of a stop string. */
function heldLength(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
