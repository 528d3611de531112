export type { TemplateCapabilities } from "./capabilities.ts";
export type { ChatMessage, ChatRole, ChatTool, TextPart, ToolCall } from "./chat-messages.ts";
export { ChatTemplate, type ChatTemplateOptions, type RenderedChat } from "./chat-template.ts";
export type { ThinkingMarks } from "./reasoning.ts";
export type { RenderRequest } from "./render.ts";
