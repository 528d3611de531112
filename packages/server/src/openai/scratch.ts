import { scratchThinking, type Directive, type Log } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";
import type { Service } from "../service.ts";
import type { ChatBody, CompletionBody } from "./schema.ts";

/** Whether a body asks that reasoning between the model's thinking marks is hidden from later turns. */
export const scratchesThinking = ({ cache }: Pick<ChatBody | CompletionBody, "cache">): boolean => cache?.scratch === "thinking";

/** What of a chat's log the option hides: the reasoning of every answer, behind its message. */
export function scratchDirectives(body: ChatBody, log: Log): Directive[] {
  return scratchesThinking(body) ? scratchThinking(log) : [];
}

export function refuseScratch(body: CompletionBody): void {
  if (scratchesThinking(body)) throw new ServerError("field_invalid", "cache.scratch: a completion has no turns; name the reasoning by a directive", { param: "cache.scratch" });
}

/**
 * Finds the reasoning in an answer: the tokens that lie wholly between the marks, as the same text is found in a message of the log when
 * the chat goes on. An answer that has not ended its reasoning has none: its text could not be told from content.
 */
export function thinkingIn({ chat, tokenizer }: Service, { tokens, header }: Log): (answer: Int32Array) => [number, number][] {
  const { open, close } = chat!.capabilities.thinking;
  const isOpened = tokenizer.decode(tokens.subarray(header)).trimEnd().endsWith(open);
  return (answer) => {
    const bytes = Array.from(answer, (id) => tokenizer.bytes(id));
    const text = Buffer.concat(bytes);
    const blank = text.length - Buffer.from(text.toString("latin1").trimStart(), "latin1").length;
    if (!isOpened && text.indexOf(open, blank) !== blank) return [];
    const start = isOpened ? 0 : blank + Buffer.byteLength(open);
    const end = text.indexOf(close, start);
    return end < 0 ? [] : within(bytes, start, end);
  };
}

/** The tokens whose every byte lies in [start, end). */
function within(bytes: readonly Uint8Array[], start: number, end: number): [number, number][] {
  let at = 0;
  let [first, last] = [-1, -1];
  for (const [token, { length }] of bytes.entries()) {
    if (first < 0 && at >= start) first = token;
    at += length;
    if (at <= end) last = token + 1;
  }
  return first >= 0 && last > first ? [[first, last]] : [];
}
