import { z } from "zod";
import type { ServerLimits } from "../limits.ts";
import { COUNT, expected, flag, jsonObject, name, oneOf, optional, realNumber, seed, text, wholeNumber } from "../openai/schema.ts";

/*
 * Anthropic's bodies, every value that the API knows, built or not: what is not is refused afterwards (unbuilt.ts). A null is an absent
 * field. `cache_control` and `context_management` are read by the directives package, with its own errors.
 */

const cacheControl = { cache_control: z.unknown().optional() };

const BLOCK_EXPECTED = 'expected a block such as {"type": "text", "text": "…"}';
const textBlock = z.object({ type: z.literal("text"), text, citations: z.unknown().optional(), ...cacheControl });
/** Blocks that the API knows and a text model has no use for. */
const otherBlock = z.looseObject({
  type: z.enum([
    "image", "document", "search_result", "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result", "tool_search_tool_result", "tool_reference", "mcp_tool_use", "mcp_tool_result", "container_upload", "compaction",
  ]),
});

const resultContent = z.union([text, z.array(z.discriminatedUnion("type", [textBlock, otherBlock], { error: () => BLOCK_EXPECTED }))], {
  error: () => "expected a string or an array of text blocks",
});

const block = z.discriminatedUnion(
  "type",
  [
    textBlock,
    z.object({ type: z.literal("thinking"), thinking: text, signature: optional(text), ...cacheControl }),
    z.object({ type: z.literal("redacted_thinking"), data: optional(text) }),
    z.object({ type: z.literal("tool_use"), id: name, name, input: jsonObject, ...cacheControl }),
    z.object({ type: z.literal("tool_result"), tool_use_id: name, content: optional(resultContent), is_error: optional(flag), ...cacheControl }),
    otherBlock,
  ],
  { error: () => BLOCK_EXPECTED },
);

const CONTENT_EXPECTED = "expected a string or an array of blocks";
const content = z.union([text, z.array(block, { error: () => CONTENT_EXPECTED })], { error: () => CONTENT_EXPECTED });

const MESSAGE_EXPECTED = 'expected a message {"role": "user" or "assistant", "content": …}';
const message = z.object({ role: z.enum(["user", "assistant", "system"], { error: () => 'expected "user" or "assistant"' }), content }, { error: () => MESSAGE_EXPECTED });

export type MessageBody = z.infer<typeof message>;
export type BlockBody = z.infer<typeof block>;

const tool = z.looseObject({ name, type: optional(text), description: optional(text), input_schema: optional(jsonObject), ...cacheControl }, expected('a tool {"name": …, "input_schema": …}'));

const CHOICE_EXPECTED = 'expected {"type": "auto"}, {"type": "none"}, {"type": "any"} or {"type": "tool", "name": …}';
const toolChoice = z.object({ type: z.enum(["auto", "none", "any", "tool"], { error: () => CHOICE_EXPECTED }), name: optional(name), disable_parallel_tool_use: optional(flag) }, { error: () => CHOICE_EXPECTED });

const thinking = z.looseObject({ type: oneOf(["enabled", "disabled", "adaptive"]), budget_tokens: optional(COUNT) }, { error: () => 'expected {"type": "enabled"} or {"type": "disabled"}' });

const SYSTEM_EXPECTED = "expected a string or an array of text blocks";
const system = z.union([text, z.array(textBlock, { error: () => SYSTEM_EXPECTED })], { error: () => SYSTEM_EXPECTED });

const common = (limits: ServerLimits) => {
  const messages = expected(`an array of 1 to ${limits.messagesMax} messages`);
  const tools = expected(`an array of at most ${limits.toolsMax} tools`);
  return {
    model: optional(name),
    messages: z.array(message, messages).min(1, messages).max(limits.messagesMax, messages),
    system: optional(system),
    tools: optional(z.array(tool, tools).max(limits.toolsMax, tools)),
    tool_choice: optional(toolChoice),
    thinking: optional(thinking),
    context_management: z.unknown().optional(),
    ...cacheControl,
    // Known, and refused by name or without effect here.
    container: z.unknown().optional(),
    mcp_servers: z.unknown().optional(),
    output_config: z.unknown().optional(),
    output_format: z.unknown().optional(),
    inference_geo: z.unknown().optional(),
    speed: optional(oneOf(["standard", "fast"])),
    fallbacks: z.unknown().optional(),
    diagnostics: z.unknown().optional(),
    drop_message: z.unknown().optional(),
    drop_rule: z.unknown().optional(),
    reposition: z.unknown().optional(),
    // Of our own.
    directives: z.unknown().optional(),
    chat_template_kwargs: optional(jsonObject),
    cache: optional(
      z.strictObject({ report: optional(flag), volatile: optional(oneOf(["drop", "keep"])) }, {
        error: (issue) => (issue.code === "unrecognized_keys" ? undefined : 'expected an object with "report" or "volatile"'),
      }),
    ),
  };
};

export const countSchema = (limits: ServerLimits) => z.object(common(limits));

export const messagesSchema = (limits: ServerLimits) => {
  const stop = expected(`an array of at most ${limits.stopStringsMax} non-empty strings of at most ${limits.stopLengthMax} characters`);
  const share = expected("a number above 0, up to 1");
  return z.object({
    ...common(limits),
    max_tokens: COUNT,
    stop_sequences: optional(z.array(z.string(stop).min(1, stop).max(limits.stopLengthMax, stop), stop).max(limits.stopStringsMax, stop)),
    temperature: optional(realNumber(0, 2)),
    top_p: optional(z.number(share).gt(0, share).max(1, share)),
    top_k: optional(wholeNumber(0, 2 ** 31 - 1)),
    stream: optional(flag),
    metadata: optional(jsonObject),
    service_tier: optional(oneOf(["auto", "standard_only"])),
    min_p: optional(realNumber(0, 1)),
    seed: optional(seed),
    ignore_eos: optional(flag),
    return_token_ids: optional(flag),
  });
};

export type CountBody = z.infer<ReturnType<typeof countSchema>>;
export type MessagesBody = z.infer<ReturnType<typeof messagesSchema>>;
