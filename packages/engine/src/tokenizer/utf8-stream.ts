/**
 * UTF-8 that arrives in pieces, as text that may be sent on at once. An incomplete character is held until it is complete; bytes
 * that can never become one are replaced by U+FFFD at once, so garbage cannot stall a stream. What was pushed, concatenated, equals
 * the decoding of all bytes at once, for every way of cutting them; no piece ends in half of a surrogate pair.
 */
export class Utf8Stream {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  /** The text that these bytes complete, often "". */
  push(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true });
  }

  /** What is left at the end: "" or one U+FFFD for a character that was cut off. */
  end(): string {
    return this.#decoder.decode();
  }
}
