import type { Directive, Log } from "../types.ts";

/**
 * The reasoning of every assistant message as scratch, behind its message: later turns never see it, and the client need not say so
 * again. A function of the log, so the same edits come back with every turn.
 */
export function scratchThinking({ chat }: Log, param = "cache.scratch"): Directive[] {
  const { roles = [], part } = chat ?? {};
  return roles.flatMap((role, message): Directive[] => {
    if (role !== "assistant" || !part || part(message, "thinking").length === 0) return [];
    return [{ op: "scratch", target: { messages: [message], part: "thinking" }, at: { message }, source: "scratch", param }];
  });
}
