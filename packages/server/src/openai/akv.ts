import { akvProjection, readAkv, type Directive, type DialectMessage } from "@palimpsest/directives";
import type { ServerLimits } from "../limits.ts";
import { parse } from "./body.ts";
import { messagesOf, type ChatBody } from "./schema.ts";
import type { ChatLike } from "./template.ts";
import { refuseUnbuiltMessages } from "./unbuilt.ts";

/** A chat body whose fields of AKV are read. */
export interface AkvRequest {
  /** What the template gets: with `keep_text_drop` the full history instead of the request's messages. */
  rendering: ChatLike;
  directives: Directive[];
  warnings: string[];
}

const FULL_MESSAGES = ["drop_rule", "full_messages"] as const;

/**
 * Reads AKV's fields before anything is rendered: one rule decides which messages are, another that the template leaves no reasoning
 * out, and what is wrong with them should cost no tokenisation. Message ids count the messages that are rendered.
 */
export function akvRequest(raw: Readonly<Record<string, unknown>>, body: ChatBody, limits: Readonly<ServerLimits>): AkvRequest {
  const chat = body.messages as readonly DialectMessage[];
  const projection = akvProjection(raw, chat);
  const rendering: ChatLike = { ...body, keepReasoning: ruleOf(raw) === "thinking_drop" };
  const warnings: string[] = [];
  if (projection?.fallback) warnings.push(`drop_rule: ${projection.fallback} The messages were used as a plain prompt, as "force" allows.`);
  else if (projection) {
    rendering.messages = parse(messagesOf(limits), projection.messages, FULL_MESSAGES);
    refuseUnbuiltMessages(rendering.messages, FULL_MESSAGES);
  }
  const directives = readAkv(raw, { messages: rendering.messages.length, chat, compat: body.cache?.compat ?? undefined });
  return { rendering, directives, warnings };
}

function ruleOf({ drop_rule: rule }: Readonly<Record<string, unknown>>): unknown {
  return typeof rule === "object" && rule !== null && "type" in rule ? rule.type : undefined;
}
