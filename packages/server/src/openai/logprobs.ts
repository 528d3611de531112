import type { TokenLogprob } from "@palimpsest/engine";
import type { TokenizerPort } from "../service.ts";
import type { AnswerToken } from "./answer.ts";

/** OpenAI's shape in completions: parallel arrays, alternatives as an object from text to log-probability. */
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

/** Where a completion's text stands, for `text_offset`: in code points, as OpenAI counts, over all tokens so far. */
export class TextOffsets {
  private readonly tokenizer: TokenizerPort;
  private readonly decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  private offset = 0;

  constructor(tokenizer: TokenizerPort) {
    this.tokenizer = tokenizer;
  }

  /** Offset of the token's first character; of a token inside a character, of that character. */
  next(id: number): number {
    const at = this.offset;
    for (const _ of this.decoder.decode(this.tokenizer.bytes(id), { stream: true })) this.offset++;
    return at;
  }
}

export function completionLogprobs(tokens: readonly AnswerToken[], tokenizer: TokenizerPort, offsets: TextOffsets): CompletionLogprobs {
  const name = (id: number) => tokenName(tokenizer.bytes(id));
  return {
    tokens: tokens.map((token) => name(token.id)),
    token_logprobs: tokens.map((token) => token.score && finite(token.score.logprob)),
    top_logprobs: tokens.map(({ score }) => score && topObject(score, name)),
    text_offset: tokens.map((token) => offsets.next(token.id)),
  };
}

/** Best first, then the token itself where it is none of the best. Ids with one text share an entry, the better one's. */
function topObject(score: TokenLogprob, name: (id: number) => string): Record<string, number> {
  const top: Record<string, number> = {};
  for (const { id, logprob } of [...score.top, score]) top[name(id)] ??= finite(logprob);
  return top;
}

/** OpenAI's shape in chat: one entry a token. */
export interface ChatLogprob {
  token: string;
  logprob: number;
  bytes: number[];
  top_logprobs: { token: string; logprob: number; bytes: number[] }[];
}

export function chatLogprobs(tokens: readonly AnswerToken[], tokenizer: TokenizerPort): ChatLogprob[] {
  const entry = (id: number, logprob: number) => {
    const bytes = tokenizer.bytes(id);
    return { token: tokenName(bytes), logprob: finite(logprob), bytes: Array.from(bytes) };
  };
  return tokens.flatMap(({ score }) =>
    score === null ? [] : [{ ...entry(score.id, score.logprob), top_logprobs: score.top.map((top) => entry(top.id, top.logprob)) }],
  );
}

/** A token's text; where its bytes are no whole characters, in OpenAI's form `bytes:\xf0\x9f`. */
export function tokenName(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}

/** JSON has no −∞; OpenAI writes −9999. */
const finite = (logprob: number) => (Number.isFinite(logprob) ? logprob : -9999);
