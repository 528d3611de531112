import type { TokenizerData } from "@palimpsest/kernels-cuda";
import { EngineError } from "../errors.ts";

/** GGUF token types. */
export const TOKEN_NORMAL = 1;
export const TOKEN_UNKNOWN = 2;
export const TOKEN_CONTROL = 3;
export const TOKEN_USER_DEFINED = 4;
export const TOKEN_UNUSED = 5;
export const TOKEN_BYTE = 6;

/**
 * The character that stands for each byte in a byte-level vocabulary: printable Latin-1 characters stand for themselves, the other
 * bytes, in order, for U+0100 and up (GPT-2's `bytes_to_unicode`).
 */
function characterOfByte(): string[] {
  const characters: string[] = [];
  let next = 0x100;
  for (let byte = 0; byte < 256; byte += 1) {
    const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters.push(String.fromCharCode(isPrintable ? byte : next++));
  }
  return characters;
}

export const CHARACTER_OF_BYTE: readonly string[] = characterOfByte();

const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = new Map(CHARACTER_OF_BYTE.map((character, byte) => [character, byte]));

/** Bytes that a byte-level text stands for; a character outside the alphabet stands for its own UTF-8. */
export function bytesOfByteLevelText(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const character of text) {
    const byte = BYTE_OF_CHARACTER.get(character);
    if (byte === undefined) bytes.push(...Buffer.from(character));
    else bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}

/** Text of bytes in the byte-level alphabet. */
export function byteLevelText(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += CHARACTER_OF_BYTE[byte];
  return text;
}

/** Ids by text; of two tokens with one text the later. */
export function idsByText(tokens: readonly string[]): Map<string, number> {
  return new Map(tokens.map((text, id) => [text, id]));
}

/**
 * Texts that end a turn or a document in the models of this format. Many files mark such a token as normal by mistake, so the text
 * decides, as in llama.cpp: these are control tokens in every file that has them.
 */
const END_TEXTS: readonly string[] = [
  "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",
  "<end_of_turn>", "<end_of_utterance>", "<turn|>", "<eos>", "[EOS]", "</s>", "<EOT>", "_<EOT>", "[EOT]", "[e~[", "<｜end▁of▁sentence｜>",
];

/** Control tokens between files or around a gap of code: a model that writes one has finished the text it was asked for. */
const FILE_END_TEXTS: readonly string[] = [
  "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>", "<|file_sep|>",
];

/** The file's token types with the end texts made control tokens, and the ids that end an answer. */
export function endsOf(data: TokenizerData, idOf: ReadonlyMap<string, number>): { types: Int32Array; endTokens: number[] } {
  const types = data.tokenTypes.slice();
  const ends = new Set<number>();
  for (const id of [data.eos, data.eot]) if (id !== null) ends.add(id);
  for (const text of END_TEXTS) {
    const id = idOf.get(text);
    if (id === undefined) continue;
    types[id] = TOKEN_CONTROL;
    ends.add(id);
  }
  for (const text of FILE_END_TEXTS) {
    const id = idOf.get(text);
    if (id !== undefined && types[id] === TOKEN_CONTROL) ends.add(id);
  }
  return { types, endTokens: [...ends].toSorted((left, right) => left - right) };
}

/** @throws EngineError `tokenizer_unsupported` or `tokenizer_damaged` for what this package cannot tokenise with. */
export function checkTokenizerData(data: TokenizerData): void {
  if (data.model !== "gpt2") {
    throw new EngineError("tokenizer_unsupported", `the model's tokenizer is "${data.model}"; only "gpt2" (byte-level BPE) is supported`);
  }
  if (data.tokenTypes.length !== data.tokens.length) {
    throw new EngineError("tokenizer_damaged", `the file has ${data.tokens.length} tokens but ${data.tokenTypes.length} token types`);
  }
  if (data.tokens.length === 0) throw new EngineError("tokenizer_damaged", "the file has an empty vocabulary");
  for (const [name, id] of [["bos", data.bos], ["eos", data.eos], ["eot", data.eot]] as const) {
    if (id !== null && !(Number.isInteger(id) && id >= 0 && id < data.tokens.length)) {
      throw new EngineError("tokenizer_damaged", `the file's ${name} token ${id} is not in its vocabulary of ${data.tokens.length}`);
    }
  }
  if (data.addBos && data.bos === null) throw new EngineError("tokenizer_damaged", "the file asks for a BOS token and names none");
}
