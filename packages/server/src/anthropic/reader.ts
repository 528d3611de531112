import type { Directive, Log } from "@palimpsest/directives";
import type { ServerLimits } from "../limits.ts";
import { readBody } from "../openai/body.ts";
import { callReader } from "../openai/chat.ts";
import { chatLog, foldBody, isContextRequest, requireModel } from "../openai/prepare.ts";
import { prepared, type PreparedRequest } from "../openai/reader.ts";
import { bodySpec } from "../openai/schema.ts";
import { thinkingReader } from "../openai/thinking.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import { conversationOf, type Conversation } from "./chat.ts";
import { editsOf, editsThinking, firstToken } from "./edits.ts";
import { countSchema, messagesSchema, type CountBody } from "./schema.ts";
import { messageShape } from "./shape.ts";
import { refuseUnbuilt } from "./unbuilt.ts";

type Raw = Readonly<Record<string, unknown>>;

/** Reads `/v1/messages`. */
export function messagesReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(messagesSchema(limits));
  return async (service: Service, caller: Caller, body: unknown, signal: AbortSignal): Promise<PreparedRequest> => {
    const { value, raw, warnings } = readBody(spec, body, limits);
    const { log, conversation, directives, warnings: seen } = await rendered(service, value, raw, signal);
    const last = Math.max(-1, ...conversation.breakpoints.map(({ message }) => message));
    return prepared(service, caller, {
      body: { ...value, tools: undefined, tool_choice: undefined, stop: value.stop_sequences, cache: { report: value.cache?.report } },
      raw,
      log,
      dialect: directives,
      shape: messageShape({
        model: service.id,
        maxTokens: value.max_tokens,
        cachedUpTo: firstToken(log, last + 1),
        managed: isManaged(value),
      }),
      thinking: thinks(value) ? thinkingReader(service, log) : undefined,
      calls: callReader(service, (value.tools ?? []).map(({ name }) => name), value.tool_choice?.type),
      maxTokens: value.max_tokens,
      logprobs: -1,
      echo: false,
      warnings: [...warnings, ...seen],
    });
  };
}

/** Reads `/v1/messages/count_tokens` and answers it: what a request with these messages would be given. */
export function tokenCounter(limits: Readonly<ServerLimits>) {
  const count = bodySpec(countSchema(limits));
  // Clients send the whole request: what only an answer needs is known here, and does not count.
  const fields = bodySpec(messagesSchema(limits)).fields;
  return async (service: Service, body: unknown, signal: AbortSignal): Promise<object> => {
    const { value, raw, warnings } = readBody({ ...count, fields }, body, limits);
    const { log, conversation, directives, warnings: seen } = await rendered(service, value, raw, signal);
    const { fold } = foldBody(service, log, raw, undefined, directives);
    const said = [...warnings, ...seen];
    return {
      input_tokens: fold.visible,
      context_management: isManaged(value) ? { original_input_tokens: log.tokens.length } : null,
      log: conversation.fields.map((field, message) => ({
        message,
        field,
        role: conversation.rendering.messages[message]!.role,
        tokens: firstToken(log, message + 1) - firstToken(log, message),
      })),
      ...(said.length > 0 ? { warnings: said } : {}),
    };
  };
}

/** Whether reasoning was asked for: by Anthropic's rule it is off otherwise. */
const thinks = ({ thinking }: CountBody) => thinking !== undefined && thinking !== null && thinking.type !== "disabled";

const isManaged = ({ context_management: management }: CountBody) => management !== undefined && management !== null;

interface Rendered {
  log: Log;
  conversation: Conversation;
  directives: Directive[];
  warnings: string[];
}

async function rendered(service: Service, body: CountBody, raw: Raw, signal: AbortSignal): Promise<Rendered> {
  const reasons = service.chat?.capabilities.reasoning ?? false;
  refuseUnbuilt(body, reasons);
  requireModel(service, body.model);
  const conversation = conversationOf(body);
  const mustFit = !isContextRequest(raw) && !isManaged(body);
  // Templates of models that may reason know this variable, and take it for true unasked.
  const variables = reasons ? { enable_thinking: thinks(body), ...body.chat_template_kwargs } : body.chat_template_kwargs;
  const { log, warnings } = await chatLog(service, { ...conversation.rendering, chat_template_kwargs: variables, keepReasoning: editsThinking(body) }, { signal, mustFit });
  const edits = editsOf(service, body, conversation, log);
  const budget = (body.thinking?.budget_tokens ?? null) === null ? [] : ["thinking.budget_tokens: the model ends its reasoning by itself; max_tokens bounds all of the answer."];
  return { log, conversation, directives: edits.directives, warnings: [...conversation.warnings, ...budget, ...warnings, ...edits.warnings] };
}
