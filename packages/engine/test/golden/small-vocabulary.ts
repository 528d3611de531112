import type { TokenizerData } from "@palimpsest/kernels-cuda";

/** GPT-2's byte alphabet, written anew so that the tests do not trust the code under test. */
export function byteAlphabet(): string[] {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  const characters: string[] = [];
  let shift = 0;
  for (let byte = 0; byte < 256; byte += 1) {
    characters.push(printable(byte) ? String.fromCodePoint(byte) : String.fromCodePoint(256 + shift));
    if (!printable(byte)) shift += 1;
  }
  return characters;
}

export const CONTROL_TOKENS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"] as const;
export const USER_DEFINED_TOKENS = ["<tool_call>", "</tool_call>"] as const;

/**
 * A vocabulary that needs no model file: every byte, `merges` in order with what they make, three control tokens and two
 * user-defined ones.
 */
export function smallVocabulary(merges: readonly string[], overrides: Partial<TokenizerData> = {}): TokenizerData {
  const made = merges.map((merge) => merge.replace(" ", ""));
  const normal = [...new Set([...byteAlphabet(), ...made])];
  const tokens = [...normal, ...CONTROL_TOKENS, ...USER_DEFINED_TOKENS];
  const types = [...normal.map(() => 1), ...CONTROL_TOKENS.map(() => 3), ...USER_DEFINED_TOKENS.map(() => 4)];
  return {
    model: "gpt2",
    pre: "qwen2",
    tokens,
    tokenTypes: Int32Array.from(types),
    merges: [...merges],
    bos: normal.length + 2,
    eos: normal.length + 1,
    eot: null,
    addBos: false,
    chatTemplate: null,
    ...overrides,
  };
}

/** Random merges of bytes and of what earlier merges made. */
export function randomMerges(count: number, letters: readonly string[], pick: (below: number) => number): string[] {
  const parts = [...letters];
  const merges = new Set<string>();
  while (merges.size < count) {
    const left = parts[pick(parts.length)] as string;
    const right = parts[pick(parts.length)] as string;
    if (left.length + right.length > 9 || merges.has(`${left} ${right}`)) continue;
    merges.add(`${left} ${right}`);
    parts.push(left + right);
  }
  return [...merges];
}

/** mulberry32 */
export function seededPick(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value = (value + Math.imul(value ^ (value >>> 7), value | 61)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) % below;
  };
}
