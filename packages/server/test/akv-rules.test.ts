import { AKV_LIMITS } from "@palimpsest/directives";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REASONING_TEMPLATE } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

/** AKV's rules that look at texts, over HTTP: what they hide is exactly the tokens of the texts, and each error has its field. */
let world: World;
beforeAll(async () => {
  world = await openWorld({ chatTemplate: REASONING_TEMPLATE });
});
afterAll(() => world.close());

interface Message {
  role: string;
  content: unknown;
  reasoning_content?: string;
  tool_calls?: unknown;
}
const MESSAGES: Message[] = [
  { role: "system", content: "be brief" },
  { role: "user", content: "abcabcabc" },
  { role: "assistant", content: "fine", reasoning_content: "let me see" },
  { role: "user", content: "more" },
  { role: "assistant", content: "<think>\nhm\n</think>ok" },
];

interface Outcome {
  op: string;
  source: string;
  at_token: number;
  ranges: [number, number][];
  status: string;
  hidden: number;
}
interface Answer {
  prompt_token_ids: number[];
  usage: { prompt_tokens: number };
  cache: { prompt_tokens: number; visible_tokens: number; cached_tokens: number; repositioned_tokens: number; computed_tokens: number; skipped_tokens: number; directives: Outcome[] };
  warnings?: string[];
}

const send = (rule: object, more: object = {}) => world.post("/v1/chat/completions", { messages: MESSAGES, max_tokens: 1, return_token_ids: true, drop_rule: rule, ...more });

async function answerOf(rule: object, more: object = {}): Promise<Answer> {
  const answer = await send(rule, more);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json as Answer;
}

const textOf = (ids: readonly number[]) => world.service.tokenizer.decode(ids);

/** The texts of all ranges of the report, and what they leave visible. */
function hidden({ prompt_token_ids: ids, cache }: Answer): { texts: string[]; left: string } {
  const ranges = cache.directives.flatMap((directive) => directive.ranges);
  const isHidden = ids.map((_, token) => ranges.some(([start, end]) => start <= token && token < end));
  expect(cache.prompt_tokens - cache.visible_tokens).toBe(isHidden.filter(Boolean).length);
  expect(cache.cached_tokens + cache.repositioned_tokens + cache.computed_tokens + cache.skipped_tokens).toBe(ids.length);
  return { texts: ranges.map(([start, end]) => textOf(ids.slice(start, end))), left: textOf(ids.filter((_, token) => !isHidden[token])) };
}

describe("thinking_drop", () => {
  test("hides the reasoning of every turn, which the template would have left out, and keeps the tags", async () => {
    const answer = await answerOf({ type: "thinking_drop" });
    expect(textOf(answer.prompt_token_ids)).toContain("<think>let me see</think>fine");
    expect(hidden(answer)).toEqual({
      texts: ["let me see", "hm"],
      left: "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nabcabcabc<|im_end|>\n<|im_start|>assistant\n<think></think>fine<|im_end|>\n" +
        "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>ok<|im_end|>\n<|im_start|>assistant\n",
    });
    expect(answer.cache.directives).toMatchObject([{ op: "drop", source: "drop_rule", status: "applied" }, { op: "drop", source: "drop_rule", status: "applied" }]);
    expect(answer.usage.prompt_tokens).toBe(answer.prompt_token_ids.length);
  });

  test("acts behind each message itself, and a reposition closes the gaps", async () => {
    const answer = await answerOf({ type: "thinking_drop" }, { reposition: [4] });
    const [first] = answer.cache.directives;
    expect(textOf(answer.prompt_token_ids.slice(0, first?.at_token)).endsWith("fine<|im_end|>\n")).toBe(true);
    expect(answer.cache).toMatchObject({ next_position: answer.cache.visible_tokens });
  });

  test("without the rule the template decides: earlier reasoning is not in the prompt", async () => {
    const { json } = await world.post("/v1/chat/completions", { messages: MESSAGES, max_tokens: 1, return_token_ids: true });
    expect(textOf((json as Answer).prompt_token_ids)).not.toContain("let me see");
  });

  test("reasoning that the template cannot keep is refused", async () => {
    const plain = await openWorld();
    const answer = await plain.post("/v1/chat/completions", { messages: MESSAGES, drop_rule: { type: "thinking_drop" } });
    expect(answer).toMatchObject({ status: 400, json: { error: { code: "akv_invalid", param: "messages[2]" } } });
    await plain.close();
  });
});

/** One entry for each message, empty but for those named. */
const entries = (named: Record<number, object>) => MESSAGES.map(({ role }, index) => ({ role, content: null, ...named[index] }));

describe("text_drop", () => {
  test("hides exact texts behind the latest user message; occurrences overlap and count from 1", async () => {
    const answer = await answerOf({ type: "text_drop", drop_messages: entries({ 1: { content: "bca", occurrence: 2 }, 2: { content: ["f", "ne"] } }) });
    expect(hidden(answer).texts).toEqual(["bca", "f", "ne"]);
    expect(hidden(answer).left).toContain("user\nabcabc<|im_end|>");
    const boundary = textOf(answer.prompt_token_ids.slice(0, answer.cache.directives[0]?.at_token));
    expect(boundary.endsWith("more<|im_end|>\n")).toBe(true);
  });

  test("texts that cover a content drop the whole message, header and end marker too", async () => {
    const answer = await answerOf({ type: "text_drop", drop_messages: entries({ 1: { content: ["abcabc", "cabc"], occurrence: [1, 2] } }) });
    expect(hidden(answer).texts).toEqual(["<|im_start|>user\nabcabcabc<|im_end|>\n"]);
  });

  test("empty texts select nothing", async () => {
    const answer = await answerOf({ type: "text_drop", drop_messages: entries({ 1: { content: [""] } }) });
    expect(answer.cache).toMatchObject({ directives: [], visible_tokens: answer.prompt_token_ids.length });
  });
});

describe("keep_text_drop", () => {
  const full: Message[] = [
    { role: "user", content: "what is two and three" },
    { role: "assistant", content: "two and three is five" },
    { role: "user", content: "then take it times two" },
  ];

  test("renders the full history and hides what the messages do not show of it", async () => {
    const visible = [{ role: "assistant", content: "three is five" }, { role: "user", content: "then take it times two" }];
    const answer = await answerOf({ type: "keep_text_drop", full_messages: full }, { messages: visible });
    expect(hidden(answer)).toEqual({
      texts: ["<|im_start|>user\nwhat is two and three<|im_end|>\n", "two and "],
      left: "<|im_start|>assistant\nthree is five<|im_end|>\n<|im_start|>user\nthen take it times two<|im_end|>\n<|im_start|>assistant\n",
    });
    const header = answer.prompt_token_ids.length - "assistant\n".length - 1;
    expect(answer.cache.directives.map(({ at_token }) => at_token)).toEqual([header, header]);
  });

  test("keeps a message in the middle of its text, at the last place where it occurs", async () => {
    const answer = await answerOf({ type: "keep_text_drop", full_messages: full }, { messages: [{ role: "user", content: "two" }, { role: "user", content: "take it" }] });
    expect(hidden(answer).left).toBe("<|im_start|>user\ntwo<|im_end|>\n<|im_start|>user\ntake it<|im_end|>\n<|im_start|>assistant\n");
  });

  test("messages that are no projection are refused, or with force a plain prompt that says so", async () => {
    const messages = [{ role: "user", content: "never said" }];
    const rule = { type: "keep_text_drop", full_messages: full };
    expect(await send(rule, { messages })).toMatchObject({ status: 400, json: { error: { code: "akv_invalid", param: "drop_rule.full_messages" } } });
    const forced = await answerOf({ ...rule, force: true }, { messages });
    expect(textOf(forced.prompt_token_ids)).toBe("<|im_start|>user\nnever said<|im_end|>\n<|im_start|>assistant\n");
    expect(forced.warnings).toEqual([expect.stringMatching(/^drop_rule: messages\[0\] is no visible part .* plain prompt/) as string]);
    expect(forced.cache.directives).toEqual([]);
  });

  test("every cell of the log is found again by the same request", async () => {
    const body = { messages: [full[2]] };
    await answerOf({ type: "keep_text_drop", full_messages: full }, body);
    expect((await answerOf({ type: "keep_text_drop", full_messages: full }, body)).cache.computed_tokens).toBeLessThanOrEqual(1);
  });
});

type Case = [what: string, more: object, param: string, status?: number];
const rule = (type: string, more: object = {}) => ({ drop_rule: { type, ...more } });
const texts = (list: unknown) => rule("text_drop", { drop_messages: list });
const keep = (more: object) => rule("keep_text_drop", more);
const assistant = (content: string, more: object = {}) => ({ messages: [{ role: "assistant", content, ...more }], ...rule("thinking_drop") });
const long = (content: string, selected: object) => ({
  messages: [{ role: "user", content }],
  ...texts([{ role: "user", ...selected }]),
});

const CASES: Case[] = [
  ["a rule that is no object", { drop_rule: 3 }, "drop_rule"],
  ["a rule without a type", { drop_rule: {} }, "drop_rule.type"],
  ["an unknown rule", rule("image_drop"), "drop_rule.type"],
  ["a rule beside drop_message", { ...rule("thinking_drop"), drop_message: {} }, "drop_rule"],
  ["thinking_drop: an unknown key", rule("thinking_drop", { keep: 1 }), "drop_rule.keep"],
  ["thinking_drop: no reasoning", { messages: [{ role: "user", content: "a" }], ...rule("thinking_drop") }, "drop_rule"],
  ["thinking_drop: both forms at once", assistant("<think>a</think>b", { reasoning_content: "c" }), "messages[0]"],
  ["thinking_drop: a block that is not closed", assistant("<think>a"), "messages[0].content"],
  ["thinking_drop: a nested block", assistant("<think>a<think>b</think></think>"), "messages[0].content"],
  ["thinking_drop: a block that does not lead", assistant("b<think>a</think>"), "messages[0].content"],
  ["text_drop: an unknown key", rule("text_drop", { drop_message: [] }), "drop_rule.drop_message"],
  ["text_drop: no list", texts({ a: 1 }), "drop_rule.drop_messages"],
  ["text_drop: another number of entries", texts([{ role: "system" }]), "drop_rule.drop_messages"],
  ["text_drop: an entry that is no object", texts(MESSAGES.map(() => "x")), "drop_rule.drop_messages[0]"],
  ["text_drop: an unknown key of an entry", texts(entries({ 0: { occurence: 1 } })), "drop_rule.drop_messages[0].occurence"],
  ["text_drop: another role", texts(entries({ 1: { role: "system" } })), "drop_rule.drop_messages[1].role"],
  ["text_drop: a content that is no text", texts(entries({ 1: { content: 5 } })), "drop_rule.drop_messages[1].content"],
  ["text_drop: empty texts among others", texts(entries({ 1: { content: ["a", ""] } })), "drop_rule.drop_messages[1].content"],
  ["text_drop: an occurrence without content", texts(entries({ 1: { occurrence: 1 } })), "drop_rule.drop_messages[1].occurrence"],
  ["text_drop: one occurrence for a list", texts(entries({ 1: { content: ["a"], occurrence: 1 } })), "drop_rule.drop_messages[1].occurrence"],
  ["text_drop: a list of occurrences for a text", texts(entries({ 1: { content: "a", occurrence: [1] } })), "drop_rule.drop_messages[1].occurrence"],
  ["text_drop: too few occurrences", texts(entries({ 1: { content: ["a", "b"], occurrence: [1] } })), "drop_rule.drop_messages[1].occurrence"],
  ["text_drop: an occurrence of 0", texts(entries({ 1: { content: "a", occurrence: 0 } })), "drop_rule.drop_messages[1].occurrence"],
  ["text_drop: a boolean occurrence", texts(entries({ 1: { content: ["a"], occurrence: [true] } })), "drop_rule.drop_messages[1].occurrence[0]"],
  ["text_drop: a text that is not there", texts(entries({ 1: { content: "abcd" } })), "drop_rule.drop_messages[1].content"],
  ["text_drop: an occurrence that is not there", texts(entries({ 1: { content: ["c", "abc"], occurrence: [3, 4] } })), "drop_rule.drop_messages[1].content[1]"],
  ["text_drop: contents in parts", { messages: [{ role: "user", content: [{ type: "text", text: "ab" }] }], ...texts([{ role: "user", content: "a" }]) }, "drop_rule.drop_messages[0]"],
  ["text_drop: no user message", { messages: [{ role: "system", content: "a" }], ...texts([{ role: "system", content: "a" }]) }, "drop_rule.drop_messages"],
  ["text_drop: too many texts", texts(entries({ 1: { content: Array.from({ length: AKV_LIMITS.selectors + 1 }, () => "a") } })), "drop_rule.drop_messages[1].content"],
  ["text_drop: texts that are too long together", long("a".repeat(1_100_000), { content: "a".repeat(AKV_LIMITS.patternCharacters + 1) }), "drop_rule.drop_messages"],
  ["text_drop: too many matches", long("a".repeat(AKV_LIMITS.matches + 9), { content: "a", occurrence: AKV_LIMITS.matches + 1 }), "drop_rule.drop_messages"],
  ["keep_text_drop: an unknown key", keep({ full: [] }), "drop_rule.full"],
  ["keep_text_drop: no history", keep({}), "drop_rule.full_messages"],
  ["keep_text_drop: an empty history", keep({ full_messages: [] }), "drop_rule.full_messages"],
  ["keep_text_drop: force in words", keep({ full_messages: MESSAGES, force: "yes" }), "drop_rule.force"],
  ["keep_text_drop: a message without a role", keep({ full_messages: [{ content: "a" }] }), "drop_rule.full_messages[0]"],
  ["keep_text_drop: a message of another role", keep({ full_messages: [{ role: "robot", content: "a" }] }), "drop_rule.full_messages[0]"],
  ["keep_text_drop: a message that no chat may have", keep({ full_messages: [...MESSAGES, { role: "user", content: "" }, { role: "tool" }] }), "drop_rule.full_messages[6].content"],
  ["keep_text_drop: an image in the history", keep({ full_messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }, ...MESSAGES] }), "drop_rule.full_messages[0].content[0].type", 422],
  ["keep_text_drop: a history that is too long", keep({ full_messages: Array.from({ length: AKV_LIMITS.messages + 1 }, () => ({ role: "user", content: "a" })) }), "drop_rule.full_messages"],
  ["keep_text_drop: a reposition past the history", { ...keep({ full_messages: MESSAGES }), reposition: [5] }, "reposition[0]"],
  ["a rule in completions", { prompt: "abc", messages: undefined, ...rule("thinking_drop") }, "drop_rule"],
];

describe("a rule is refused for", () => {
  test.each(CASES)("%s", async (_what, more, param, status = 400) => {
    const body = { messages: MESSAGES, max_tokens: 1, ...more };
    const path = "prompt" in body ? "/v1/completions" : "/v1/chat/completions";
    for (const endpoint of [path, "/v1/directives/plan"]) {
      const answer = await world.post(endpoint, body);
      expect({ status: answer.status, ...(answer.json as object) }).toMatchObject({ status, error: { param, kind: status === 422 ? "unsupported" : "invalid" } });
    }
  });
});
