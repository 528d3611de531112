import type { CacheBreakpoint } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";
import type { ChatMessageBody } from "../openai/schema.ts";
import type { ChatLike } from "../openai/template.ts";
import type { BlockBody, CountBody, MessageBody } from "./schema.ts";

/** A call of a tool in the conversation and its result, by messages of the log. */
export interface ToolUse {
  call: number;
  result: number;
  name: string;
}

/** Anthropic's conversation as the template's chat. One message of the request may be several of the log, and `system` is one. */
export interface Conversation {
  rendering: ChatLike;
  /** For each message of the log, the request's field that it is of. */
  fields: readonly string[];
  toolUses: readonly ToolUse[];
  breakpoints: readonly CacheBreakpoint[];
  warnings: readonly string[];
}

/** Breakpoints of one request, as Anthropic has it. */
const BREAKPOINTS_MAX = 4;

/**
 * Lines that a client puts in front of its system prompt and changes with every request, so that no prefix would ever be found again. A
 * system block that is such a line alone is left out; nothing else of a request is looked at.
 */
const VOLATILE = /^x-anthropic-billing-header:[^\n]*\n?$/;

/** Turns the messages of a checked body into a chat: each tool result a message of its own, `system` the first one. */
export function conversationOf(body: CountBody): Conversation {
  const builder = new ConversationBuilder();
  if (body.system !== undefined && body.system !== null) builder.system(body.system, body.cache?.volatile === "keep");
  body.messages.forEach((message, index) => builder.message(message, `messages[${index}]`));
  const tools = body.tools ?? [];
  tools.forEach(({ cache_control: control }, index) => builder.breakpoint(0, control, `tools[${index}].cache_control`));
  builder.breakpoint(builder.messages.length - 1, body.cache_control, "cache_control");
  if (builder.breakpoints.length > BREAKPOINTS_MAX) {
    const { param } = builder.breakpoints[BREAKPOINTS_MAX]!;
    throw new ServerError("field_invalid", `${param}: a request has at most ${BREAKPOINTS_MAX} breakpoints, got ${builder.breakpoints.length}`, { param });
  }
  return {
    rendering: {
      messages: builder.messages,
      tools: tools.map(({ name, description, input_schema: parameters }) => ({ type: "function", function: { name, description: description ?? "", parameters } })),
    },
    fields: builder.fields,
    toolUses: builder.toolUses,
    breakpoints: builder.breakpoints,
    warnings: builder.warnings,
  };
}

class ConversationBuilder {
  readonly messages: ChatMessageBody[] = [];
  readonly fields: string[] = [];
  readonly toolUses: ToolUse[] = [];
  readonly breakpoints: CacheBreakpoint[] = [];
  readonly warnings: string[] = [];
  /** Calls that wait for their result, by id. */
  readonly #calls = new Map<string, { call: number; name: string }>();

  system(system: NonNullable<CountBody["system"]>, keepVolatile: boolean): void {
    const blocks = typeof system === "string" ? [{ text: system, cache_control: undefined }] : system;
    const kept = keepVolatile ? blocks : blocks.filter(({ text }) => !VOLATILE.test(text));
    if (kept.length < blocks.length) {
      this.warnings.push('system: a block that is a billing header was left out, since it changes with every request; "cache": {"volatile": "keep"} keeps it.');
    }
    if (kept.length > 0) this.#add({ role: "system", content: kept.map(({ text }) => text).join("\n") }, "system");
    blocks.forEach(({ cache_control: control }, index) => this.breakpoint(0, control, `system[${index}].cache_control`));
  }

  message({ role, content }: MessageBody, field: string): void {
    const blocks: BlockBody[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    if (role === "assistant") this.#assistant(blocks, field);
    else this.#outside(role, blocks, field);
  }

  breakpoint(message: number, control: unknown, param: string): void {
    if (control !== undefined && control !== null) this.breakpoints.push({ message, cache_control: control, param });
  }

  /** A user's message: its results, each a message, and its text, in their order. */
  #outside(role: "user" | "system", blocks: readonly BlockBody[], field: string): void {
    let texts: string[] = [];
    const flush = () => {
      if (texts.length > 0) this.#add({ role, content: texts.join("\n") }, field);
      texts = [];
    };
    blocks.forEach((block, index) => {
      const param = `${field}.content[${index}]`;
      if (block.type === "text") texts.push(block.text);
      else if (block.type === "tool_result") {
        flush();
        this.#result(block, field, param);
      } else throw misplaced(block.type, role, param);
      if ("cache_control" in block) this.breakpoint(block.type === "text" ? this.messages.length : this.messages.length - 1, block.cache_control, `${param}.cache_control`);
    });
    if (blocks.length === 0) texts.push("");
    flush();
  }

  #result({ tool_use_id: id, content, is_error: isError }: Extract<BlockBody, { type: "tool_result" }>, field: string, param: string): void {
    const use = this.#calls.get(id);
    if (use === undefined) {
      const message = `${param}.tool_use_id: expected the id of a tool_use of an earlier message that has no result yet, got "${id}"`;
      throw new ServerError("field_invalid", message, { param: `${param}.tool_use_id` });
    }
    this.#calls.delete(id);
    this.toolUses.push({ ...use, result: this.messages.length });
    if (isError === true) this.warnings.push(`${param}.is_error: the model reads the result's text alone.`);
    const text = typeof content === "string" ? content : (content ?? []).map((inner) => (inner.type === "text" ? inner.text : "")).join("\n");
    this.#add({ role: "tool", content: text, tool_call_id: id, name: use.name }, field);
  }

  #assistant(blocks: readonly BlockBody[], field: string): void {
    const [texts, thoughts]: [string[], string[]] = [[], []];
    const calls: { id: string; type: "function"; function: { name: string; arguments: Record<string, unknown> } }[] = [];
    const message = this.messages.length;
    blocks.forEach((block, index) => {
      const param = `${field}.content[${index}]`;
      if (block.type === "text") texts.push(block.text);
      else if (block.type === "thinking") thoughts.push(block.thinking);
      else if (block.type === "redacted_thinking") this.warnings.push(`${param}: redacted thinking cannot be read and was left out.`);
      else if (block.type === "tool_use") {
        calls.push({ id: block.id, type: "function", function: { name: block.name, arguments: block.input } });
        this.#calls.set(block.id, { call: message, name: block.name });
      } else throw misplaced(block.type, "assistant", param);
      if ("cache_control" in block) this.breakpoint(message, block.cache_control, `${param}.cache_control`);
    });
    this.#add(
      {
        role: "assistant",
        content: texts.join(""),
        ...(thoughts.length > 0 ? { reasoning_content: thoughts.join("\n") } : {}),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      },
      field,
    );
  }

  #add(message: ChatMessageBody, field: string): void {
    this.messages.push(message);
    this.fields.push(field);
  }
}

function misplaced(type: string, role: string, param: string): ServerError {
  return new ServerError("field_invalid", `${param}.type: expected a block that a message of role "${role}" may have, got "${type}"`, { param: `${param}.type` });
}
