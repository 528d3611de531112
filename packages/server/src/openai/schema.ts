import { targetSchema } from "@palimpsest/directives";
import { z } from "zod";
import type { ServerLimits } from "../limits.ts";
import type { BodySpec } from "./body.ts";

/*
 * The schemas describe every value that the API knows, built or not. What is known and not built yet is refused afterwards, by
 * `refuseUnbuilt` (unbuilt.ts), so that a wrong value is `invalid` and a right one that we lack is `unsupported`.
 * A null is an absent field, except for the context fields, which the directives package reads from the raw body.
 */

export const expected = (what: string) => ({ error: () => `expected ${what}` });

export const wholeNumber = (min: number, max: number) => {
  const message = expected(max === Number.MAX_SAFE_INTEGER ? `a whole number of at least ${min}` : `a whole number from ${min} to ${max}`);
  return z.number(message).int(message).min(min, message).max(max, message);
};

export const realNumber = (min: number, max: number) => {
  const message = expected(`a number from ${min} to ${max}`);
  return z.number(message).min(min, message).max(max, message);
};

export const flag = z.boolean(expected("true or false"));
export const text = z.string(expected("a string"));
export const name = z.string(expected("a non-empty string")).min(1, expected("a non-empty string"));
export const jsonObject = z.record(z.string(), z.unknown(), expected("an object"));
export const optional = <T extends z.ZodType>(schema: T) => schema.nullish();
export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, expected(`one of ${values.map((value) => `"${value}"`).join(", ")}`));

const SEED_EXPECTED = expected("a whole number of 64 bits");

export const COUNT = wholeNumber(0, Number.MAX_SAFE_INTEGER);
/** The sampler takes 64 bits, signed or not. JSON numbers past 2⁵³ arrive rounded, the same one always in the same way. */
export const seed = z.number(SEED_EXPECTED).refine((value) => Number.isInteger(value) && value >= -(2 ** 63) && value < 2 ** 64, SEED_EXPECTED);

/** `cheapest`: what an edit of the text does faster is done by it. */
const cost = oneOf(["cheapest"]);

const stopOf = (limits: ServerLimits) => {
  const message = expected(`a non-empty string of at most ${limits.stopLengthMax} characters`);
  const one = z.string(message).min(1, message).max(limits.stopLengthMax, message);
  const list = expected(`a string or an array of at most ${limits.stopStringsMax} strings`);
  return z.union([one, z.array(one, list).max(limits.stopStringsMax, list)], { error: () => list.error() });
};

const FORMAT_EXPECTED = 'expected an object with "type": "text", "json_object" or "json_schema"';
const responseFormat = z.looseObject({ type: z.enum(["text", "json_object", "json_schema"], { error: () => FORMAT_EXPECTED }) }, { error: () => FORMAT_EXPECTED });

/** What completions and chat share. */
const commonFields = (limits: ServerLimits) => ({
  model: optional(name),
  stream: optional(flag),
  stream_options: optional(
    z.object({ include_usage: optional(flag), include_obfuscation: optional(flag) }, expected("an object such as {\"include_usage\": true}")),
  ),
  max_tokens: optional(COUNT),
  temperature: optional(realNumber(0, 2)),
  top_p: optional(z.number(expected("a number above 0, up to 1")).gt(0, expected("a number above 0, up to 1")).max(1, expected("a number above 0, up to 1"))),
  top_k: optional(wholeNumber(-1, 2 ** 31 - 1)),
  min_p: optional(realNumber(0, 1)),
  seed: optional(seed),
  stop: optional(stopOf(limits)),
  stop_token_ids: optional(z.array(COUNT, expected("an array of token ids")).max(limits.stopStringsMax, expected(`at most ${limits.stopStringsMax} token ids`))),
  n: optional(wholeNumber(1, 128)),
  frequency_penalty: optional(realNumber(-2, 2)),
  presence_penalty: optional(realNumber(-2, 2)),
  repetition_penalty: optional(z.number(expected("a number above 0")).gt(0, expected("a number above 0"))),
  logit_bias: optional(z.record(z.string().regex(/^\d+$/, expected("token ids as keys")), realNumber(-100, 100), expected("an object of token id and bias"))),
  user: optional(text),
  // Other servers' ways to constrain an answer: known, so that they are refused and not ignored.
  response_format: optional(responseFormat),
  grammar: z.unknown().optional(),
  json_schema: z.unknown().optional(),
  guided_json: z.unknown().optional(),
  guided_regex: z.unknown().optional(),
  guided_choice: z.unknown().optional(),
  guided_grammar: z.unknown().optional(),
  structured_outputs: z.unknown().optional(),
  ignore_eos: optional(flag),
  return_token_ids: optional(flag),
  cache: optional(
    z.strictObject({ report: optional(flag), compat: optional(oneOf(["akv"])), scratch: optional(oneOf(["thinking"])), cost: optional(cost) }, {
      error: (issue) => (issue.code === "unrecognized_keys" ? undefined : 'expected an object with "report", "compat", "scratch" or "cost"'),
    }),
  ),
  cost: optional(cost),
  // Checked by the directives package, with its own errors; here only so that they are known.
  directives: z.unknown().optional(),
  drop_message: z.unknown().optional(),
  drop_rule: z.unknown().optional(),
  reposition: z.unknown().optional(),
});

export type Prompt = string | number[] | string[] | number[][];

/** Checked by hand, up to the first wrong item: an issue for each of some million ids would be a way to exhaust memory. */
const prompt = z.custom<Prompt>().meta({ description: "A string, or an array of token ids" }).check((context) => {
  const issue = promptIssue(context.value);
  if (issue === null) return;
  const { path, value } = issue;
  const message = path.length === 0 ? "expected a string or an array of token ids" : "expected a token id, a whole number of at least 0";
  context.issues.push({ code: "custom", path, input: value, message });
});

function promptIssue(value: unknown): { path: number[]; value: unknown } | null {
  if (typeof value === "string") return null;
  if (!Array.isArray(value)) return { path: [], value };
  const lists = value.some(Array.isArray);
  if (lists) {
    for (const [index, item] of value.entries()) {
      const bad = Array.isArray(item) ? idIssue(item) : { path: [], value: item as unknown };
      if (bad !== null) return { path: [index, ...bad.path], value: bad.value };
    }
    return null;
  }
  if (typeof value[0] !== "string") return idIssue(value);
  const bad = value.findIndex((item) => typeof item !== "string");
  return bad === -1 ? null : { path: [bad], value: value[bad] };
}

function idIssue(ids: readonly unknown[]): { path: number[]; value: unknown } | null {
  const bad = ids.findIndex((id) => !Number.isSafeInteger(id) || (id as number) < 0);
  return bad === -1 ? null : { path: [bad], value: ids[bad] };
}

/** The same for a list of ids alone. */
const tokenIds = z.custom<number[]>().meta({ description: "An array of token ids" }).check((context) => {
  const value: unknown = context.value;
  const issue = Array.isArray(value) ? idIssue(value) : { path: [], value };
  if (issue !== null) context.issues.push({ code: "custom", path: issue.path, input: issue.value, message: "expected an array of token ids" });
});

export const completionSchema = (limits: ServerLimits) =>
  z.object({
    ...commonFields(limits),
    prompt,
    logprobs: optional(wholeNumber(0, limits.alternativesMax)),
    echo: optional(flag),
    suffix: optional(text),
    best_of: optional(wholeNumber(1, 20)),
  });

export type CompletionBody = z.infer<ReturnType<typeof completionSchema>>;

const textPart = z.object({ type: z.literal("text"), text }, expected('a part such as {"type": "text", "text": "…"}'));
/** Parts that OpenAI knows and a text model does not. */
const UNBUILT_PARTS = ["image_url", "input_audio", "file", "refusal"] as const;
const unbuiltPart = z.looseObject({ type: z.enum(UNBUILT_PARTS) });
const PART_EXPECTED = 'expected a part with "type": "text" and a string "text"';
const part = z.discriminatedUnion("type", [textPart, unbuiltPart], { error: () => PART_EXPECTED });
const CONTENT_EXPECTED = "expected a string or an array of text parts";
const content = z.union([text, z.array(part, { error: () => CONTENT_EXPECTED })], { error: () => CONTENT_EXPECTED });

const TOOL_CALL_EXPECTED = 'expected a tool call {"id": …, "type": "function", "function": {"name": …, "arguments": "…"}}';
/** Arguments are an opaque string: malformed ones in a history must not poison every later request. */
const toolCall = z.object(
  {
    id: optional(text),
    type: optional(oneOf(["function", "custom"])),
    function: optional(z.object({ name, arguments: z.union([text, jsonObject], { error: () => "expected a string of JSON" }).nullish() }, { error: () => TOOL_CALL_EXPECTED })),
    custom: optional(jsonObject),
  },
  { error: () => TOOL_CALL_EXPECTED },
);

const messageName = { name: optional(text) };
const message = z.discriminatedUnion(
  "role",
  [
    z.object({ role: z.literal("system"), content, ...messageName }),
    z.object({ role: z.literal("developer"), content, ...messageName }),
    z.object({ role: z.literal("user"), content, ...messageName }),
    z.object({
      role: z.literal("assistant"),
      content: optional(content),
      reasoning_content: optional(text),
      refusal: optional(text),
      tool_calls: optional(z.array(toolCall, expected("an array of tool calls"))),
      function_call: optional(jsonObject),
      audio: optional(jsonObject),
      ...messageName,
    }),
    z.object({ role: z.literal("tool"), content, tool_call_id: optional(text), ...messageName }),
    z.object({ role: z.literal("function"), content: optional(content), ...messageName }),
  ],
  { error: (issue) => roleExpected(issue.input) },
);

export type ChatMessageBody = z.infer<typeof message>;

const roleExpected = (input: unknown) =>
  typeof input === "object" && input !== null ? 'expected "system", "developer", "user", "assistant" or "tool"' : "expected a message, an object with role and content";

const TOOL_EXPECTED = 'expected a tool {"type": "function", "function": {"name": …}}';
const tool = z.discriminatedUnion(
  "type",
  [
    z.object({
      type: z.literal("function"),
      function: z.looseObject({ name, description: optional(text), parameters: optional(jsonObject), strict: optional(flag) }, { error: () => TOOL_EXPECTED }),
    }),
    z.looseObject({ type: z.literal("custom") }),
  ],
  { error: () => TOOL_EXPECTED },
);

const CHOICE_EXPECTED = 'expected "auto", "none", "required" or an object that names a tool';
const toolChoice = z.union([z.enum(["auto", "none", "required"]), z.looseObject({ type: z.enum(["function", "custom", "allowed_tools"]) })], {
  error: () => CHOICE_EXPECTED,
});

export const messagesOf = (limits: ServerLimits) => {
  const count = expected(`an array of 1 to ${limits.messagesMax} messages`);
  return z.array(message, count).min(1, count).max(limits.messagesMax, count);
};
const toolsOf = (limits: ServerLimits) => {
  const count = expected(`an array of at most ${limits.toolsMax} tools`);
  return z.array(tool, count).max(limits.toolsMax, count);
};

export const chatSchema = (limits: ServerLimits) =>
  z.object({
    ...commonFields(limits),
    messages: messagesOf(limits),
    max_completion_tokens: optional(COUNT),
    logprobs: optional(flag),
    top_logprobs: optional(wholeNumber(0, limits.alternativesMax)),
    tools: optional(toolsOf(limits)),
    tool_choice: optional(toolChoice),
    parallel_tool_calls: optional(flag),
    add_generation_prompt: optional(flag),
    continue_final_message: optional(flag),
    chat_template: optional(text),
    chat_template_kwargs: optional(jsonObject),
    metadata: optional(jsonObject),
    store: optional(flag),
    service_tier: optional(oneOf(["auto", "default", "flex", "scale", "priority"])),
    reasoning_effort: optional(oneOf(["none", "minimal", "low", "medium", "high", "xhigh"])),
    verbosity: optional(oneOf(["low", "medium", "high"])),
    modalities: optional(z.array(oneOf(["text", "audio"]), expected('an array such as ["text"]'))),
    audio: optional(jsonObject),
    prediction: optional(jsonObject),
    functions: optional(z.array(jsonObject, expected("an array"))),
    function_call: z.union([text, jsonObject]).nullish(),
    web_search_options: optional(jsonObject),
    prompt_cache_key: optional(text),
    prompt_cache_retention: optional(text),
    safety_identifier: optional(text),
  });

export type ChatBody = z.infer<ReturnType<typeof chatSchema>>;

export const tokenizeSchema = (limits: ServerLimits) =>
  z.object({
    model: optional(name),
    prompt: optional(text),
    messages: optional(messagesOf(limits)),
    tools: optional(toolsOf(limits)),
    add_generation_prompt: optional(flag),
    add_special_tokens: optional(flag),
    chat_template_kwargs: optional(jsonObject),
  });

export type TokenizeBody = z.infer<ReturnType<typeof tokenizeSchema>>;

const MATCH_EXPECTED = 'expected {"tokens": [ids]} or {"messages": […]}';
export const eraseSchema = (limits: ServerLimits) =>
  z.object({
    model: optional(name),
    match: z.union(
      [
        z.strictObject({ tokens: tokenIds }),
        z.strictObject({ messages: messagesOf(limits), tools: optional(toolsOf(limits)), add_generation_prompt: optional(flag), chat_template_kwargs: optional(jsonObject) }),
      ],
      { error: (issue) => (issue.code === "invalid_union" ? MATCH_EXPECTED : undefined) },
    ),
    target: optional(targetSchema.meta({ description: "What of it must go; absent: all of it" })),
  });

export type EraseBody = z.infer<ReturnType<typeof eraseSchema>>;

export const detokenizeSchema = z.object({ model: optional(name), tokens: tokenIds });

/** A schema with the names it knows. */
export function bodySpec<S extends z.ZodObject>(schema: S): BodySpec<z.infer<S>> {
  return { schema: schema as unknown as z.ZodType<z.infer<S>>, fields: new Set(Object.keys(schema.shape)) };
}
