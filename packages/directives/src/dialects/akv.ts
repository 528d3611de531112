import { DirectiveError, shown } from "../errors.ts";
import type { Directive } from "../types.ts";
import { keepTextDrop, onlyKeys, type Projection, refuse, textDrop, thinkingDrop } from "./akv-rules.ts";
import type { DialectMessage } from "./messages.ts";

/** AKV's fields of a chat request. That one is present makes a context request, whatever its value: `null`, `{}` and `[]` too. */
export const AKV_FIELDS = ["drop_message", "drop_rule", "reposition"] as const;

/** Whether a body is a context request: it has a field of directives, native or AKV's, even an empty one. */
export function isContextRequest(body: Readonly<Record<string, unknown>>): boolean {
  return body.directives !== undefined || AKV_FIELDS.some((field) => body[field] !== undefined);
}

export interface AkvOptions {
  /** Messages of the log. */
  messages: number;
  /** The request's messages: the rules that look at texts need them. */
  chat?: readonly DialectMessage[] | undefined;
  /** "akv": a trigger past the last message is ignored instead of refused, as are keys that name one trigger twice. */
  compat?: "akv" | undefined;
}

/**
 * AKV's fields as directives (operate-after: an operation acts behind all tokens of its trigger message). Ids are indices into the
 * request's messages. Errors name AKV's field, with the key or index inside it.
 */
export function readAkv(body: Readonly<Record<string, unknown>>, options: AkvOptions): Directive[] {
  const { drop_message: dropMessage, drop_rule: dropRule, reposition } = body;
  if (present(dropMessage) && present(dropRule)) {
    refuse("Only one of drop_message and drop_rule may be given; leave one out.", "drop_rule");
  }
  return [
    ...(present(dropMessage) ? dropSchedule(dropMessage, "drop_message", "drop_message", options) : []),
    ...(present(dropRule) ? ruleDirectives(dropRule, options) : []),
    ...(present(reposition) ? repositions(reposition, options) : []),
  ];
}

/**
 * What a request with the rule keep_text_drop must render instead of its messages; null for every other request. Ask before the log is
 * made, and give `readAkv` the request's own messages all the same.
 */
export function akvProjection(body: Readonly<Record<string, unknown>>, chat: readonly DialectMessage[]): Projection | null {
  const rule = body.drop_rule;
  return isObject(rule) && rule.type === "keep_text_drop" ? keepTextDrop(rule, chat) : null;
}

function ruleDirectives(rule: unknown, options: AkvOptions): Directive[] {
  if (!isObject(rule)) return refuse(`Expected an object with a "type"; got ${shown(rule)}.`, "drop_rule");
  const { type } = rule;
  if (type === "message_drop") {
    onlyKeys(rule, ["type", "drop_messages"], "drop_rule");
    return dropSchedule(rule.drop_messages, "drop_rule.drop_messages", "drop_rule", options);
  }
  const reader = typeof type === "string" && Object.hasOwn(TEXT_RULES, type) ? TEXT_RULES[type as keyof typeof TEXT_RULES] : undefined;
  if (!reader) return refuse(`Expected "message_drop", "thinking_drop", "text_drop" or "keep_text_drop"; got ${shown(type)}.`, "drop_rule.type");
  if (!options.chat) throw new DirectiveError("directive_unsupported", `The rule "${String(type)}" looks at the texts of messages, which are not at hand here.`, "drop_rule.type");
  return reader(rule, options.chat);
}

/** The rules that look at texts. */
const TEXT_RULES = {
  thinking_drop: thinkingDrop,
  text_drop: textDrop,
  keep_text_drop: (rule: Record<string, unknown>, chat: readonly DialectMessage[]) => keepTextDrop(rule, chat).directives,
} as const;

/** An object from trigger to a list of ids: after message `trigger`, hide these messages. */
function dropSchedule(schedule: unknown, param: string, source: string, options: AkvOptions): Directive[] {
  if (!isObject(schedule)) return refuse(`Expected an object from trigger message to a list of message ids; got ${shown(schedule)}.`, param);
  const byTrigger = new Map<number, Directive | null>();
  for (const [key, ids] of Object.entries(schedule)) {
    const entry = `${param}[${JSON.stringify(key)}]`;
    const trigger = messageId(key, entry);
    if (byTrigger.has(trigger) && options.compat !== "akv") refuse(`Two keys name message ${trigger}; join their lists.`, entry);
    const directive = scheduledDrop(trigger, ids, entry, source);
    if (trigger < options.messages) byTrigger.set(trigger, directive);
    else if (options.compat !== "akv") {
      refuse(`Expected a trigger from 0 to ${options.messages - 1}; got ${trigger}. AKV ignores it: send "cache": {"compat": "akv"} for that.`, entry);
    }
  }
  return [...byTrigger.values()].filter((directive) => directive !== null);
}

/** Null for an empty list, which AKV allows and which drops nothing. */
function scheduledDrop(trigger: number, ids: unknown, param: string, source: string): Directive | null {
  if (!Array.isArray(ids)) return refuse(`Expected a list of message ids; got ${shown(ids)}.`, param);
  const messages = ids.map((id, i) => {
    const message = messageId(id, `${param}[${i}]`);
    if (message > trigger) refuse(`Expected a message up to its trigger ${trigger}; got ${message}.`, `${param}[${i}]`);
    return message;
  });
  return messages.length === 0 ? null : { op: "drop", target: { messages }, at: { message: trigger }, source, param };
}

function repositions(list: unknown, options: AkvOptions): Directive[] {
  if (!Array.isArray(list)) return refuse(`Expected a list of message ids; got ${shown(list)}.`, "reposition");
  let last = -1;
  return list.map((id: unknown, i): Directive => {
    const param = `reposition[${i}]`;
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0) return refuse(`Expected a message id, an integer from 0; got ${shown(id)}.`, param);
    if (id >= options.messages) refuse(`Expected a message from 0 to ${options.messages - 1}; got ${id}.`, param);
    if (id <= last) refuse(`The list must be strictly increasing; got ${id} after ${last}.`, param);
    last = id;
    return { op: "reposition", at: { message: id }, strict: true, source: "reposition", param };
  });
}

/** AKV takes integers, integral floats and decimal strings with blanks around them; no booleans, signs or leading zeros; below 2^63. */
function messageId(value: unknown, param: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 63) return value;
  if (typeof value === "string") {
    const text = value.trim();
    if (/^(0|[1-9][0-9]{0,18})$/.test(text) && BigInt(text) < 2n ** 63n) return Number(text);
  }
  return refuse(`Expected a message id: an integer from 0, or the same as a decimal string; got ${shown(value)}.`, param);
}

function present(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
