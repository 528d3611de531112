import { z } from "zod";
import { DirectiveError, shown } from "../errors.ts";
import type { Directive, Fold } from "../types.ts";
import type { DialectReading } from "./messages.ts";

const amount = <T extends string>(...types: [T, ...T[]]) => z.strictObject({ type: z.enum(types), value: z.int().min(0) });

const toolUsesSchema = z.strictObject({
  type: z.literal("clear_tool_uses_20250919"),
  trigger: amount("input_tokens", "tool_uses").optional(),
  keep: amount("tool_uses").optional(),
  clear_at_least: amount("input_tokens").nullish(),
  exclude_tools: z.array(z.string()).nullish(),
  clear_tool_inputs: z.union([z.boolean(), z.array(z.string())]).nullish(),
});

const thinkingSchema = z.strictObject({
  type: z.literal("clear_thinking_20251015"),
  keep: z.union([z.literal("all"), z.strictObject({ type: z.literal("all") }), z.strictObject({ type: z.literal("thinking_turns"), value: z.int().min(1) })]).optional(),
});

type ToolUses = z.infer<typeof toolUsesSchema>;
type Thinking = z.infer<typeof thinkingSchema>;

const TRIGGER_TOKENS = 100_000;
const KEEP_TOOL_USES = 3;
const KEEP_THINKING_TURNS = 1;
/** What a cleared result is replaced by. */
export const CLEARED = "[cleared]";

/** What the reading needs to know of a conversation. Message ids and token numbers are those of the log. */
export interface AnthropicLog {
  /** In order: which message made the call, which holds the result, and the tokens that clearing the result saves. */
  toolUses: readonly { call: number; result: number; name: string; tokens: number }[];
  /** Assistant messages, ascending. `thinks`: they have thinking. */
  turns: readonly { message: number; thinks: boolean }[];
  messages: number;
  /** Tokens of the log before a message (of all, for `messages`). */
  tokensBefore(message: number): number;
}

/** Which edit of `context_management` a directive came from, for `applied_edits`. */
type EditName = ToolUses["type"] | Thinking["type"];

/**
 * Anthropic's `context_management.edits` as directives. The rules are evaluated before each assistant message as it was answered then,
 * and what is newly cleared stands at that boundary: so a later request with the same history repeats the same edits at the same
 * places, and its cells are found again.
 */
export function readContextManagement(json: unknown, log: AnthropicLog, param = "context_management"): DialectReading<Directive[]> {
  const edits = editsOf(json, param);
  const losses: string[] = [];
  const value = edits.flatMap((edit, i): Directive[] => {
    const at = `${param}.edits[${i}]`;
    const { type } = edit as { type?: unknown };
    if (type === "compact_20260112") throw new DirectiveError("directive_unsupported", "Compaction needs a model's summary, which this server does not write.", `${at}.type`);
    if (type === "clear_thinking_20251015" && i > 0) refuse(`"clear_thinking_20251015" must come first.`, `${at}.type`);
    if (type === "clear_thinking_20251015") return clearThinking(parse(thinkingSchema, edit, at), log, at);
    if (type === "clear_tool_uses_20250919") return clearToolUses(parse(toolUsesSchema, edit, at), log, at);
    return refuse(`Expected "clear_tool_uses_20250919" or "clear_thinking_20251015"; got ${shown(type)}.`, `${at}.type`);
  });
  return { value, losses };
}

function editsOf(json: unknown, param: string): unknown[] {
  const edits = typeof json === "object" && json !== null ? (json as { edits?: unknown }).edits : undefined;
  const unknown = Object.keys(json ?? {}).find((key) => key !== "edits");
  if (unknown !== undefined) refuse(`Unknown field "${unknown}"; expected edits.`, `${param}.${unknown}`);
  if (edits === undefined) return [];
  return Array.isArray(edits) ? edits : refuse(`Expected a list of edits; got ${shown(edits)}.`, `${param}.edits`);
}

function clearToolUses(edit: ToolUses, log: AnthropicLog, param: string): Directive[] {
  const { trigger = { type: "input_tokens", value: TRIGGER_TOKENS }, keep = { type: "tool_uses", value: KEEP_TOOL_USES }, clear_at_least: least } = edit;
  const excluded = new Set(edit.exclude_tools ?? []);
  const cleared = new Set<number>();
  return moments(log).flatMap((moment) => {
    const done = log.toolUses.filter(({ result }) => result < moment);
    const reached = trigger.type === "tool_uses" ? done.length > trigger.value : log.tokensBefore(moment) > trigger.value;
    if (!reached) return [];
    const candidates = done.slice(0, Math.max(0, done.length - keep.value)).filter(({ name }) => !excluded.has(name));
    const fresh = candidates.filter(({ result }) => !cleared.has(result));
    if (least && candidates.reduce((sum, { tokens }) => sum + tokens, 0) < least.value) return [];
    for (const { result } of fresh) cleared.add(result);
    return fresh.flatMap((use) => clearOne(use, edit, moment, param));
  });
}

function clearOne({ call, result, name }: AnthropicLog["toolUses"][number], { type, clear_tool_inputs: inputs }: ToolUses, moment: number, param: string): Directive[] {
  const common = { with: CLEARED, mode: "amortize", at: { message: moment - 1 }, source: type, param };
  const directives: Directive[] = [{ op: "splice", target: { messages: [result], part: "tool_result" }, ...common }];
  const clearsInput = inputs === true || (Array.isArray(inputs) && inputs.includes(name));
  if (clearsInput) directives.push({ op: "drop", target: { messages: [call], part: "tool_calls" }, at: { message: moment - 1 }, source: type, param });
  return directives;
}

function clearThinking({ keep, type }: Thinking, log: AnthropicLog, param: string): Directive[] {
  if (keep === "all" || (typeof keep === "object" && keep.type === "all")) return [];
  const kept = keep === undefined ? KEEP_THINKING_TURNS : keep.value;
  const cleared = new Set<number>();
  return moments(log).flatMap((moment) => {
    const thinking = log.turns.filter(({ message, thinks }) => thinks && message < moment).map(({ message }) => message);
    const fresh = thinking.slice(0, Math.max(0, thinking.length - kept)).filter((message) => !cleared.has(message));
    for (const message of fresh) cleared.add(message);
    return fresh.map((message): Directive => ({ op: "drop", target: { messages: [message], part: "thinking" }, at: { message: moment - 1 }, source: type, param }));
  });
}

/** The message ids before which an answer was, or is to be, written. */
function moments({ turns, messages }: AnthropicLog): number[] {
  const ids = turns.map(({ message }) => message).filter((message) => message > 0);
  return ids.at(-1) === messages ? ids : [...ids, messages];
}

export interface AppliedEdit {
  type: EditName;
  cleared_tool_uses?: number;
  cleared_thinking_turns?: number;
  cleared_input_tokens: number;
}

/** The answer's `context_management.applied_edits`: what the fold says that the directives did. */
export function appliedEdits({ outcomes }: Fold): AppliedEdit[] {
  const edits: AppliedEdit[] = [];
  const thinking = outcomes.filter(({ source, status }) => source === "clear_thinking_20251015" && status === "applied");
  const tools = outcomes.filter(({ source, status }) => source === "clear_tool_uses_20250919" && status === "applied");
  const saved = (list: typeof outcomes) => list.reduce((sum, { hidden = 0, inserted = 0 }) => sum + hidden - inserted, 0);
  if (thinking.length > 0) edits.push({ type: "clear_thinking_20251015", cleared_thinking_turns: thinking.length, cleared_input_tokens: saved(thinking) });
  const results = tools.filter(({ op }) => op === "splice").length;
  if (tools.length > 0) edits.push({ type: "clear_tool_uses_20250919", cleared_tool_uses: results, cleared_input_tokens: saved(tools) });
  return edits;
}

const cacheControlSchema = z.strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() });
const SECONDS = { "5m": 300, "1h": 3_600 } as const;

/** A breakpoint: the request's field, and the message of the log that its block belongs to. */
export interface CacheBreakpoint {
  message: number;
  cache_control: unknown;
  param: string;
}

/** `cache_control` breakpoints as pins of everything up to their message. A breakpoint inside a message reaches to the message's end. */
export function readCacheControl(breakpoints: readonly CacheBreakpoint[]): Directive[] {
  return breakpoints.map(({ message, cache_control: control, param }): Directive => {
    const { ttl = "5m" } = parse(cacheControlSchema, control, param);
    const messages = Array.from({ length: message + 1 }, (_, i) => i);
    return { op: "pin", target: { messages }, until: { seconds: SECONDS[ttl] }, at: { message }, source: "cache_control", param };
  });
}

function parse<T>(schema: z.ZodType<T>, json: unknown, param: string): T {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const keys = issue!.code === "unrecognized_keys" ? [issue!.keys[0]!] : [];
  return refuse(`${issue!.message}; got ${shown(json)}.`, [param, ...issue!.path.map(String), ...keys].join("."));
}

function refuse(message: string, param: string): never {
  throw new DirectiveError("directive_invalid", message, param);
}
