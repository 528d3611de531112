import type { ChatRequest, TemplateMessage } from "../service.ts";
import type { ChatMessageBody } from "./schema.ts";

interface ChatLike {
  messages: readonly ChatMessageBody[];
  tools?: readonly object[] | null | undefined;
  add_generation_prompt?: boolean | null | undefined;
  chat_template_kwargs?: Record<string, unknown> | null | undefined;
}

/** A checked chat body in the form that templates know. */
export function templateRequest(body: ChatLike): ChatRequest {
  return {
    messages: body.messages.map(templateMessage),
    tools: body.tools && body.tools.length > 0 ? body.tools : null,
    addGenerationPrompt: body.add_generation_prompt ?? true,
    variables: body.chat_template_kwargs ?? {},
  };
}

function templateMessage(message: ChatMessageBody): TemplateMessage {
  const content = contentText(message.content);
  const named = message.name ? { name: message.name } : {};
  switch (message.role) {
    case "system":
    case "developer":
      return { role: "system", content, ...named };
    case "user":
      return { role: "user", content, ...named };
    case "tool":
      return { role: "tool", content, ...named, ...(message.tool_call_id ? { tool_call_id: message.tool_call_id } : {}) };
    case "assistant": {
      const calls = (message.tool_calls ?? []).flatMap((call) => (call.function ? [templateCall(call.id, call.function)] : []));
      const reasoning = message.reasoning_content ? { reasoning_content: message.reasoning_content } : {};
      return { role: "assistant", content, ...reasoning, ...named, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
    }
    case "function":
      throw new Error("refused before");
  }
}

type Call = NonNullable<TemplateMessage["tool_calls"]>[number];

function templateCall(id: string | null | undefined, call: { name: string; arguments?: unknown }): Call {
  return { ...(id ? { id } : {}), type: "function", function: { name: call.name, arguments: argumentsValue(call.arguments) } };
}

/** Templates print arguments as JSON themselves, so they get the value. A malformed string stays what it is: history must not poison later requests. */
function argumentsValue(written: unknown): unknown {
  if (typeof written !== "string") return written ?? {};
  try {
    const value: unknown = JSON.parse(written);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : written;
  } catch {
    return written;
  }
}

/** Parts are joined by line breaks. */
function contentText(content: ChatMessageBody["content"]): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => (part.type === "text" && typeof part.text === "string" ? part.text : "")).join("\n");
}
