import { CLEARED, readCacheControl, readContextManagement, type Directive, type Log } from "@palimpsest/directives";
import type { Service } from "../service.ts";
import type { Conversation } from "./chat.ts";
import type { CountBody } from "./schema.ts";

/** Whether the template must show the reasoning of earlier turns: what an edit clears has to stand in the log. */
export function editsThinking({ context_management: management }: Pick<CountBody, "context_management">): boolean {
  const edits = typeof management === "object" && management !== null && "edits" in management ? management.edits : null;
  return Array.isArray(edits) && edits.some((edit: unknown) => typeof edit === "object" && edit !== null && "type" in edit && String(edit.type).startsWith("clear_thinking_"));
}

/** What `context_management` and `cache_control` ask of a rendered conversation. */
export function editsOf(service: Service, body: CountBody, conversation: Conversation, log: Log): { directives: Directive[]; warnings: string[] } {
  const pins = readCacheControl(conversation.breakpoints);
  if (body.context_management === undefined || body.context_management === null) return { directives: pins, warnings: [] };
  const chat = log.chat!;
  const cells = (message: number, part: "thinking" | "tool_result") => (chat.part?.(message, part) ?? []).reduce((sum, [start, end]) => sum + end - start, 0);
  const cleared = service.tokenizer.encode(CLEARED, false).length;
  const { value, losses } = readContextManagement(body.context_management, {
    toolUses: conversation.toolUses.map((use) => ({ ...use, tokens: Math.max(0, cells(use.result, "tool_result") - cleared) })),
    turns: conversation.rendering.messages.flatMap(({ role }, message) => (role === "assistant" ? [{ message, thinks: cells(message, "thinking") > 0 }] : [])),
    messages: chat.messages,
    tokensBefore: (message) => firstToken(log, message),
  });
  return { directives: [...value, ...pins], warnings: losses };
}

/** First token of a message of the log, or of whatever comes behind it. */
export function firstToken({ tokens, chat }: Log, message: number): number {
  const { owners } = chat!;
  let [low, high] = [0, tokens.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (owners[middle]! >= message) high = middle;
    else low = middle + 1;
  }
  return low;
}
