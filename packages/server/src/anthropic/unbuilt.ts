import { AKV_FIELDS } from "@palimpsest/directives";
import { show } from "../openai/body.ts";
import { unsupported } from "../openai/unbuilt.ts";
import type { BlockBody, CountBody } from "./schema.ts";

const UNBUILT: readonly [field: keyof CountBody, reason: string][] = [
  ["container", "the server runs no code"],
  ["mcp_servers", "the server reaches no other service"],
  ["output_config", "answers constrained by a grammar or schema, and efforts, are not built yet"],
  ["output_format", "answers constrained by a grammar or schema are not built yet"],
  ["fallbacks", "there is one model"],
];

/** Refuses by name what the API knows and this server does not do. `reasons`: the model's template renders reasoning. */
export function refuseUnbuilt(body: CountBody, reasons: boolean): void {
  for (const [field, reason] of UNBUILT) if (body[field] !== undefined && body[field] !== null) throw unsupported([field], body[field], reason);
  for (const field of AKV_FIELDS) {
    if (body[field] !== undefined) throw unsupported([field], body[field], 'AKV\'s fields belong to /v1/chat/completions; use "directives" or "context_management" here');
  }
  if (body.speed === "fast") throw unsupported(["speed"], body.speed, "there is one speed");
  const choice = body.tool_choice;
  if (choice?.type === "any" || choice?.type === "tool") throw unsupported(["tool_choice", "type"], choice.type, 'the model cannot be forced to call a tool yet; use "auto" or "none"');
  if (choice?.disable_parallel_tool_use === true) throw unsupported(["tool_choice", "disable_parallel_tool_use"], true, "the model cannot be held to one call yet");
  if (body.thinking && body.thinking.type !== "disabled" && !reasons) throw unsupported(["thinking", "type"], body.thinking.type, 'the model does not reason before it answers; use "disabled", or leave it out');
  for (const [index, { type, input_schema: schema }] of (body.tools ?? []).entries()) {
    if ((type !== undefined && type !== null && type !== "custom") || !schema) throw unsupported(["tools", index, "type"], type ?? "a tool without input_schema", "tools are functions of the client");
  }
  body.messages.forEach(({ content }, index) => {
    if (typeof content === "string") return;
    content.forEach((block, number) => refuseBlock(block, ["messages", index, "content", number]));
  });
  if (body.messages.at(-1)?.role === "assistant") {
    throw unsupported(["messages", body.messages.length - 1, "role"], "assistant", "an answer always begins a new message; end with a user message");
  }
}

function refuseBlock(block: BlockBody, at: readonly PropertyKey[]): void {
  if (block.type === "tool_result" && Array.isArray(block.content)) return block.content.forEach((inner, index) => refuseBlock(inner, [...at, "content", index]));
  if (!READ.has(block.type)) throw unsupported([...at, "type"], block.type, `the model reads text, not ${show(block.type)}`);
}

const READ: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use", "tool_result"]);
