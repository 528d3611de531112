import type { ChatMessage, ChatTool, RenderRequest } from "@palimpsest/engine";
import type { ChatMessageBody } from "./schema.ts";

/** The part of a body that is rendered: of a chat, or of `/tokenize`. */
export interface ChatLike {
  messages: readonly ChatMessageBody[];
  tools?: readonly object[] | null | undefined;
  add_generation_prompt?: boolean | null | undefined;
  chat_template_kwargs?: Record<string, unknown> | null | undefined;
  /** Show the reasoning of earlier turns where the template would leave it out. */
  keepReasoning?: boolean | undefined;
}

/** A checked body in the form that the template takes; what only OpenAI knows of it was refused before. */
export function templateRequest(body: ChatLike): RenderRequest {
  return {
    messages: body.messages as readonly ChatMessage[],
    tools: (body.tools ?? []) as readonly ChatTool[],
    addGenerationPrompt: body.add_generation_prompt ?? true,
    variables: body.chat_template_kwargs ?? {},
    keepReasoning: body.keepReasoning ?? false,
  };
}
