import type { ChatLog, Directive, Log, Part } from "../types.ts";

/**
 * The reasoning of every assistant message as scratch, behind what the model said in it: later turns never see it, and the client need
 * not say so again. The tokens with which the template ends the message come behind the boundary: they were not there when the answer
 * was generated, and so nothing that is computed later needs the reasoning. A function of the log, so the same edits come back with
 * every turn.
 */
export function scratchThinking({ chat }: Log, param = "cache.scratch"): Directive[] {
  const { roles = [], part } = chat ?? {};
  return roles.flatMap((role, message): Directive[] => {
    if (role !== "assistant" || !part || part(message, "thinking").length === 0) return [];
    return [{ op: "scratch", target: { messages: [message], part: "thinking" }, at: { token: endOf(part, message) }, source: "scratch", param }];
  });
}

const SAID: readonly Part[] = ["thinking", "content", "tool_calls"];

/** Behind the last token of what the model said in a message. */
function endOf(part: NonNullable<ChatLog["part"]>, message: number): number {
  return Math.max(...SAID.flatMap((name) => part(message, name).map(([, end]) => end)));
}
