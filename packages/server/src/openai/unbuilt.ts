import { ServerError } from "../errors.ts";
import { pathText, show } from "./body.ts";
import type { ChatBody, ChatMessageBody, CompletionBody } from "./schema.ts";

interface Unbuilt<T> {
  field: keyof T & string;
  /** Values that need what is not built. Never called with null or undefined. */
  needs: (value: never) => boolean;
  reason: string;
}

const always = () => true;
const other = (neutral: unknown) => (value: unknown) => value !== neutral;
const filled = (value: object) => Object.keys(value).length > 0;
const entry = <T>(field: keyof T & string, needs: (value: never) => boolean, reason: string): Unbuilt<T> => ({ field, needs, reason });

type Common = CompletionBody & ChatBody;
const CONSTRAINED = "answers constrained by a grammar or schema are not built yet";

const COMMON: readonly Unbuilt<Common>[] = [
  entry<Common>("n", (n: number) => n > 1, "one answer a request; send the request again, its prompt is cached"),
  entry<Common>("frequency_penalty", other(0), "penalties are not built yet; leave it at 0"),
  entry<Common>("presence_penalty", other(0), "penalties are not built yet; leave it at 0"),
  entry<Common>("repetition_penalty", other(1), "penalties are not built yet; leave it at 1"),
  entry<Common>("logit_bias", filled, "a bias on logits is not built yet"),
  entry<Common>("response_format", (format: { type: string }) => format.type !== "text", CONSTRAINED),
  entry<Common>("grammar", always, CONSTRAINED),
  entry<Common>("json_schema", always, CONSTRAINED),
  entry<Common>("guided_json", always, CONSTRAINED),
  entry<Common>("guided_regex", always, CONSTRAINED),
  entry<Common>("guided_choice", always, CONSTRAINED),
  entry<Common>("guided_grammar", always, CONSTRAINED),
  entry<Common>("structured_outputs", always, CONSTRAINED),
];

const COMPLETION: readonly Unbuilt<CompletionBody>[] = [
  ...(COMMON as readonly Unbuilt<CompletionBody>[]),
  entry<CompletionBody>("suffix", always, "filling in the middle is not built"),
  entry<CompletionBody>("best_of", (n: number) => n > 1, "one answer a request"),
];

const CHAT: readonly Unbuilt<ChatBody>[] = [
  ...(COMMON as readonly Unbuilt<ChatBody>[]),
  entry<ChatBody>("tool_choice", (choice: unknown) => choice !== "auto" && choice !== "none", 'the model cannot be forced to call a tool yet; use "auto" or "none"'),
  entry<ChatBody>("parallel_tool_calls", other(true), "the model cannot be held to one call yet"),
  entry<ChatBody>("continue_final_message", other(false), "an answer always begins a new message"),
  entry<ChatBody>("chat_template", always, "the model file's own template is used"),
  entry<ChatBody>("store", other(false), "the server keeps no answers"),
  entry<ChatBody>("service_tier", (tier: string) => tier !== "auto" && tier !== "default", "there is one tier"),
  entry<ChatBody>("reasoning_effort", always, "no model that takes an effort is supported yet"),
  entry<ChatBody>("verbosity", other("medium"), "no model that takes a verbosity is supported yet"),
  entry<ChatBody>("modalities", (list: readonly string[]) => list.some((modality) => modality !== "text"), "answers are text"),
  entry<ChatBody>("audio", always, "answers are text"),
  entry<ChatBody>("prediction", always, "predicted outputs are not built"),
  entry<ChatBody>("functions", always, 'deprecated; use "tools"'),
  entry<ChatBody>("function_call", always, 'deprecated; use "tool_choice"'),
  entry<ChatBody>("web_search_options", always, "the server reaches no other service"),
];

export function refuseUnbuiltCompletion(body: CompletionBody): void {
  refuse(COMPLETION, body);
}

export function refuseUnbuiltChat(body: ChatBody): void {
  refuse(CHAT, body);
  refuseUnbuiltMessages(body.messages);
  for (const [index, tool] of (body.tools ?? []).entries()) {
    if (tool.type !== "function") throw unsupported(["tools", index, "type"], tool.type, "tools are functions");
  }
}

/** What OpenAI allows in a message and a text model has no use for. `root` is where the messages stand in the request. */
export function refuseUnbuiltMessages(messages: readonly ChatMessageBody[], root: readonly PropertyKey[] = ["messages"]): void {
  for (const [index, message] of messages.entries()) {
    const at = [...root, index] as const;
    if (message.role === "function") throw unsupported([...at, "role"], message.role, 'deprecated; use "tool"');
    for (const [number, part] of Array.isArray(message.content) ? message.content.entries() : []) {
      if (part.type !== "text") throw unsupported([...at, "content", number, "type"], part.type, "the model reads text");
    }
    if (message.role !== "assistant") continue;
    for (const field of ["audio", "function_call", "refusal"] as const) {
      const value = message[field];
      if (value !== undefined && value !== null) throw unsupported([...at, field], value, "only content, reasoning_content and tool_calls are rendered");
    }
    for (const [number, call] of (message.tool_calls ?? []).entries()) {
      if (call.type === "custom" || !call.function) throw unsupported([...at, "tool_calls", number, "type"], call.type, "tool calls are function calls");
    }
  }
}

function refuse<T extends object>(list: readonly Unbuilt<T>[], body: T): void {
  for (const { field, needs, reason } of list) {
    const value: unknown = body[field];
    if (value !== undefined && value !== null && needs(value as never)) throw unsupported([field], value, reason);
  }
}

export function unsupported(path: readonly PropertyKey[], value: unknown, reason: string): ServerError {
  const param = pathText(path);
  return new ServerError("unsupported", `${param}: ${show(value)} is not supported: ${reason}`, { param });
}
