export { PRE_TOKENIZER_NAMES } from "./pre-tokenizers.ts";
export { Slices } from "./slices.ts";
export type { SpecialFilter, SpecialMatch, SpecialToken } from "./special-tokens.ts";
export { type DecodeOptions, type EncodeOptions, type Encoding, Tokenizer } from "./tokenizer.ts";
export { Utf8Stream } from "./utf8-stream.ts";
