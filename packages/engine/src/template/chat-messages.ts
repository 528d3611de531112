import type { Part } from "@palimpsest/directives";
import { EngineError } from "../errors.ts";
import { type Value, values } from "./jinja.ts";
import { type Origin, type Piece, SCAFFOLD, TracedText, UNKNOWN_DATA } from "./traced-text.ts";

export type ChatRole = "system" | "developer" | "user" | "assistant" | "tool";

export interface TextPart {
  type: string;
  text?: string | undefined;
}

export interface ToolCall {
  id?: string | undefined;
  type?: string | undefined;
  function: { name: string; /** JSON text, or the object itself. */ arguments: unknown };
}

/** A message as OpenAI's chat API has it. Further fields are not shown to the template. */
export interface ChatMessage {
  role: ChatRole | (string & {});
  content?: string | readonly TextPart[] | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: readonly ToolCall[] | null | undefined;
  tool_call_id?: string | null | undefined;
  name?: string | null | undefined;
}

export interface ChatTool {
  type?: string | undefined;
  function: { name: string; description?: string | null | undefined; parameters?: unknown };
}

const ROLES: ReadonlySet<string> = new Set(["system", "developer", "user", "assistant", "tool"]);

/** Deepest nesting of a tool's schema or of arguments. */
export const CHAT_LIMITS = { DEPTH_MAX: 100 } as const;

/** Values for a template, and where those that are no texts come from. */
export interface TemplateInput {
  messages: Value;
  tools: Value | null;
  origins: WeakMap<Value, Origin>;
  /** Some call's arguments are no JSON object (they were cut off, say) and stand there as a text. */
  hasOpaqueArguments: boolean;
}

/** How a template wants its values. */
export interface InputForm {
  /** Content as a list of parts and not as a text. */
  typedContent: boolean;
  /** Arguments that are no JSON object as the object `{"arguments": text}`: for templates that can only show objects. */
  wrapArguments: boolean;
}

/**
 * Messages and tools as values of the template language.
 *
 * @throws EngineError `messages_invalid`, `content_unsupported`, with the field
 */
export function templateInput(messages: readonly ChatMessage[], tools: readonly ChatTool[], form: InputForm): TemplateInput {
  if (messages.length === 0) throw new EngineError("messages_invalid", "messages must hold at least one message", "messages");
  const maker = new ValueMaker(form);
  const list = messages.map((message, index) => maker.message(message, index));
  return {
    messages: new values.list(list),
    tools: tools.length === 0 ? null : new values.list(tools.map((tool, index) => maker.tool(tool, `tools[${index}]`))),
    origins: maker.origins,
    hasOpaqueArguments: maker.hasOpaqueArguments,
  };
}

class ValueMaker {
  readonly origins = new WeakMap<Value, Origin>();
  hasOpaqueArguments = false;
  readonly #form: InputForm;

  constructor(form: InputForm) {
    this.#form = form;
  }

  message(message: ChatMessage, index: number): Value {
    const field = `messages[${index}]`;
    if (!ROLES.has(message.role)) {
      const expected = [...ROLES].join(", ");
      throw new EngineError("messages_invalid", `${field}.role must be one of ${expected}; got ${JSON.stringify(message.role)}`, `${field}.role`);
    }
    const of = (part: Part | null): Origin => ({ data: true, owner: index, part });
    const pieces = contentPieces(message, field, of);
    const content = new TracedText(pieces);
    const entries = new Map<string, Value>([
      // A role is one of a few words that templates build control tokens from.
      ["role", TracedText.of(message.role === "developer" ? "system" : message.role, SCAFFOLD)],
      ["content", this.#form.typedContent ? this.#typed(content, of(null)) : content],
    ]);
    if (typeof message.reasoning_content === "string" && message.reasoning_content !== "") {
      entries.set("reasoning_content", TracedText.of(message.reasoning_content, of("thinking")));
    }
    if (message.tool_calls && message.tool_calls.length > 0) {
      const calls = message.tool_calls.map((call, at) => this.#toolCall(call, `${field}.tool_calls[${at}]`, of("tool_calls")));
      entries.set("tool_calls", this.#register(new values.list(calls), of("tool_calls")));
    }
    if (typeof message.tool_call_id === "string") entries.set("tool_call_id", TracedText.of(message.tool_call_id, of(null)));
    if (typeof message.name === "string") entries.set("name", TracedText.of(message.name, of(null)));
    return this.#register(new values.map(entries), of(null));
  }

  /** A tool's name, description and parameters, in this order, as llama.cpp shows it. */
  tool(tool: ChatTool, field: string): Value {
    if (typeof tool.function?.name !== "string") {
      throw new EngineError("messages_invalid", `${field}.function.name must be a text`, `${field}.function.name`);
    }
    const { name, description, parameters } = tool.function;
    return this.#convert({ type: "function", function: { name, description: description ?? "", parameters: parameters ?? {} } }, UNKNOWN_DATA, field);
  }

  #toolCall(call: ToolCall, field: string, origin: Origin): Value {
    if (typeof call.function?.name !== "string") {
      throw new EngineError("messages_invalid", `${field}.function.name must be a text`, `${field}.function.name`);
    }
    const shown = {
      type: "function",
      function: { name: call.function.name, arguments: this.#arguments(call.function.arguments) },
      ...(call.id === undefined ? {} : { id: call.id }),
    };
    return this.#convert(shown, origin, field);
  }

  /** The object that a JSON text of arguments is. Text that is none stays what it is: a broken call in the history must replay. */
  #arguments(given: unknown): unknown {
    const parsed = typeof given === "string" ? parsedObject(given) : given;
    if (typeof parsed === "object" && parsed !== null) return parsed;
    this.hasOpaqueArguments = true;
    return this.#form.wrapArguments ? { arguments: given } : given;
  }

  #typed(content: TracedText, origin: Origin): Value {
    const part = new values.map(new Map<string, Value>([["type", TracedText.of("text", SCAFFOLD)], ["text", content]]));
    return this.#register(new values.list(content.value === "" ? [] : [part]), origin);
  }

  #convert(value: unknown, origin: Origin, field: string, depth = 0): Value {
    if (depth > CHAT_LIMITS.DEPTH_MAX) {
      throw new EngineError("messages_invalid", `${field} is nested deeper than ${CHAT_LIMITS.DEPTH_MAX} levels`, field);
    }
    if (typeof value === "string") return TracedText.of(value, origin);
    return this.#register(this.#plain(value, origin, field, depth), origin);
  }

  #plain(value: unknown, origin: Origin, field: string, depth: number): Value {
    if (typeof value === "number") return Number.isInteger(value) ? new values.integer(value) : new values.float(value);
    if (typeof value === "boolean") return new values.boolean(value);
    if (Array.isArray(value)) return new values.list(value.map((item) => this.#convert(item, origin, field, depth + 1)));
    if (typeof value === "object" && value !== null) {
      const entries = Object.entries(value).filter(([, item]) => item !== undefined);
      return new values.map(new Map(entries.map(([key, item]) => [key, this.#convert(item, origin, field, depth + 1)])));
    }
    return new values.null(null);
  }

  #register(value: Value, origin: Origin): Value {
    this.origins.set(value, origin);
    return value;
  }
}

function parsedObject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One leading block of reasoning in an assistant's content. */
const LEADING_THINKING = /^\s*<think>([^]*?)<\/think>/;

function contentPieces(message: ChatMessage, field: string, of: (part: Part) => Origin): Piece[] {
  const text = contentText(message.content, field);
  if (message.role === "tool") return [{ text, origin: of("tool_result") }];
  const thinking = message.role === "assistant" ? LEADING_THINKING.exec(text) : null;
  if (thinking === null) return [{ text, origin: of("content") }];
  const end = thinking[0].length - "</think>".length;
  const start = end - (thinking[1] as string).length;
  return [
    { text: text.slice(0, start), origin: of("content") },
    { text: text.slice(start, end), origin: of("thinking") },
    { text: text.slice(end), origin: of("content") },
  ];
}

/** Content as one text; several parts are joined by line ends, as llama.cpp and vLLM do. */
function contentText(content: ChatMessage["content"], field: string): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw new EngineError("messages_invalid", `${field}.content must be a text or an array of parts`, `${field}.content`);
  let joined = "";
  for (const [index, part] of (content as readonly TextPart[]).entries()) {
    const name = `${field}.content[${index}]`;
    if (part.type !== "text") {
      throw new EngineError("content_unsupported", `${name}.type ${JSON.stringify(part.type)} is not supported; this model reads "text"`, `${name}.type`);
    }
    if (typeof part.text !== "string") throw new EngineError("messages_invalid", `${name}.text must be a text`, `${name}.text`);
    joined += joined === "" ? part.text : `\n${part.text}`;
  }
  return joined;
}
