import { EngineError } from "../errors.ts";
import { TOKEN_BYTE, TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_USER_DEFINED, bytesOfByteLevelText } from "./vocabulary.ts";

const NO_BYTES = new Uint8Array(0);

/** The bytes of every token, one after the other. */
export class TokenBytes {
  readonly #bytes: Uint8Array;
  /** Where each token's bytes begin, and the end. */
  readonly #starts: Int32Array;
  /** Bytes of the longest token. */
  readonly longest: number;
  /** By byte: 1 where a token stands for it alone. */
  readonly single = new Uint8Array(256);

  constructor(tokens: readonly string[], types: Int32Array) {
    const pieces = tokens.map((text, id) => bytesOfToken(text, types[id] as number));
    this.#starts = new Int32Array(tokens.length + 1);
    for (const [id, piece] of pieces.entries()) this.#starts[id + 1] = (this.#starts[id] as number) + piece.length;
    this.#bytes = new Uint8Array(this.#starts[tokens.length] as number);
    for (const [id, piece] of pieces.entries()) this.#bytes.set(piece, this.#starts[id]);
    this.longest = pieces.reduce((most, piece) => Math.max(most, piece.length), 1);
    for (const piece of pieces) if (piece.length === 1) this.single[piece[0] as number] = 1;
  }

  of(id: number): Uint8Array {
    if (!Number.isInteger(id) || id < 0) throw new EngineError("token_invalid", `a token id must be a natural number, got ${id}`);
    if (id >= this.#starts.length - 1) return NO_BYTES;
    return this.#bytes.subarray(this.#starts[id], this.#starts[id + 1]);
  }
}

function bytesOfToken(text: string, type: number): Uint8Array {
  switch (type) {
    case TOKEN_NORMAL:
      return bytesOfByteLevelText(text);
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
    case TOKEN_USER_DEFINED:
      return Buffer.from(text);
    case TOKEN_BYTE:
      return bytesOfByteToken(text);
    default:
      return NO_BYTES;
  }
}

/** `<0xE4>` */
function bytesOfByteToken(text: string): Uint8Array {
  const digits = /^<0x([0-9A-Fa-f]{2})>$/.exec(text)?.[1];
  return digits === undefined ? bytesOfByteLevelText(text) : Uint8Array.of(Number.parseInt(digits, 16));
}
