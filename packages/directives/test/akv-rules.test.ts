import { describe, expect, test } from "vitest";
import { AKV_LIMITS, akvProjection, type DialectMessage, DirectiveError, fold, readAkv, writeTextEdits } from "../src/index.ts";
import { renderChat } from "./chat-text.ts";

const CHAT: DialectMessage[] = [
  { role: "system", content: "be brief" },
  { role: "user", content: "abcabcabc" },
  { role: "assistant", content: "fine", reasoning_content: "let me see" },
  { role: "user", content: "more" },
  { role: "assistant", content: "<think>\nhm\n</think>ok" },
];

function refusal(run: () => unknown): DirectiveError {
  try {
    run();
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

/** Text that is visible in the end of a request with a rule. */
function visible(rule: object, chat: readonly DialectMessage[] = CHAT): string {
  const body = { drop_rule: rule };
  const rendered = akvProjection(body, chat)?.messages ?? chat;
  const { log, read } = renderChat(rendered);
  return read(writeTextEdits(fold(log, readAkv(body, { messages: rendered.length, chat }))).value.tokens);
}

const read = (rule: object, chat: readonly DialectMessage[] = CHAT) => readAkv({ drop_rule: rule }, { messages: chat.length, chat });

describe("thinking_drop", () => {
  test("hides the reasoning of each assistant message behind it; tags stay", () => {
    expect(read({ type: "thinking_drop" }).map(({ target, at }) => [target, at])).toEqual([
      [{ messages: [2], part: "thinking" }, { message: 2 }],
      [{ text: { message: 4, exact: "hm" } }, { message: 4 }],
    ]);
    expect(visible({ type: "thinking_drop" })).toBe("<system>be brief;<user>abcabcabc;<assistant>{}fine;<user>more;<assistant><think>\n\n</think>ok;<assistant>");
  });

  test.each<[string, DialectMessage[], string]>([
    ["no reasoning at all", [{ role: "user", content: "a" }, { role: "assistant", content: "b" }], "drop_rule"],
    ["both forms at once", [{ role: "assistant", content: "<think>a</think>b", reasoning_content: "c" }], "messages[0]"],
    ["a block that is not closed", [{ role: "assistant", content: "<think>a" }], "messages[0].content"],
    ["a nested block", [{ role: "assistant", content: "<think>a<think>b</think></think>" }], "messages[0].content"],
    ["a block that does not lead", [{ role: "assistant", content: "b<think>a</think>" }], "messages[0].content"],
  ])("%s is refused", (_what, chat, param) => {
    expect(refusal(() => read({ type: "thinking_drop" }, chat))).toMatchObject({ code: "akv_invalid", param });
  });

  test("reasoning that the template left out is refused, by its message", () => {
    const { log } = renderChat(CHAT.map(({ reasoning_content: _left, ...message }) => message));
    expect(refusal(() => fold(log, read({ type: "thinking_drop" })))).toMatchObject({ code: "akv_invalid", param: "messages[2]" });
    expect(refusal(() => read({ type: "thinking_drop", x: 1 }))).toMatchObject({ param: "drop_rule.x" });
  });
});

/** One entry for each message, empty but for those named. */
function entries(named: Record<number, object>): object[] {
  return CHAT.map(({ role }, i) => Object.assign({ role, content: null }, named[i]));
}

test.each(["thinking_drop", "text_drop", "keep_text_drop"])("%s without the texts of the messages is unsupported, never ignored", (type) => {
  expect(refusal(() => readAkv({ drop_rule: { type } }, { messages: 2 }))).toMatchObject({ kind: "unsupported", param: "drop_rule.type" });
});

describe("text_drop", () => {
  test("hides exact texts behind the latest user message; occurrences overlap and count from 1", () => {
    const rule = { type: "text_drop", drop_messages: entries({ 1: { content: "bca", occurrence: 2 }, 2: { content: ["f", "ne"] } }) };
    expect(visible(rule)).toBe("<system>be brief;<user>abcabc;<assistant>{let me see}i;<user>more;<assistant><think>\nhm\n</think>ok;<assistant>");
    expect(read(rule).map(({ at }) => at)).toEqual([{ message: 3 }, { message: 3 }, { message: 3 }]);
  });

  test("texts that cover a content drop the whole message", () => {
    const rule = { type: "text_drop", drop_messages: entries({ 1: { content: ["abcabc", "cabc"], occurrence: [1, 2] } }) };
    expect(read(rule)).toMatchObject([{ target: { messages: [1] } }]);
    expect(visible(rule)).not.toContain("abc");
  });

  test("a text counts inside the content alone, whatever stands in the reasoning before it", () => {
    const chat: DialectMessage[] = [{ role: "user", content: "q" }, { role: "assistant", content: "see it", reasoning_content: "see see" }];
    const rule = { type: "text_drop", drop_messages: [{ role: "user" }, { role: "assistant", content: "see" }] };
    expect(visible(rule, chat)).toBe("<user>q;<assistant>{see see} it;<assistant>");
  });

  test.each<[string, unknown, string]>([
    ["no list", { a: 1 }, "drop_rule.drop_messages"],
    ["another number of entries", [{ role: "system" }], "drop_rule.drop_messages"],
    ["an entry that is no object", entries({}).with(0, "x" as never), "drop_rule.drop_messages[0]"],
    ["an unknown field", entries({ 0: { occurence: 1 } }), "drop_rule.drop_messages[0].occurence"],
    ["another role", entries({ 1: { role: "system" } }), "drop_rule.drop_messages[1].role"],
    ["a content that is no text", entries({ 1: { content: 5 } }), "drop_rule.drop_messages[1].content"],
    ["empty texts among others", entries({ 1: { content: ["a", ""] } }), "drop_rule.drop_messages[1].content"],
    ["an occurrence without content", entries({ 1: { occurrence: 1 } }), "drop_rule.drop_messages[1].occurrence"],
    ["one occurrence for a list", entries({ 1: { content: ["a", "b"], occurrence: 1 } }), "drop_rule.drop_messages[1].occurrence"],
    ["a list of occurrences for a text", entries({ 1: { content: "a", occurrence: [1] } }), "drop_rule.drop_messages[1].occurrence"],
    ["too few occurrences", entries({ 1: { content: ["a", "b"], occurrence: [1] } }), "drop_rule.drop_messages[1].occurrence"],
    ["an occurrence of 0", entries({ 1: { content: "a", occurrence: 0 } }), "drop_rule.drop_messages[1].occurrence"],
    ["a boolean occurrence", entries({ 1: { content: ["a"], occurrence: [true] } }), "drop_rule.drop_messages[1].occurrence[0]"],
    ["a text that is not there", entries({ 1: { content: "abcd" } }), "drop_rule.drop_messages[1].content"],
    ["an occurrence that is not there", entries({ 1: { content: ["c", "abc"], occurrence: [3, 4] } }), "drop_rule.drop_messages[1].content[1]"],
    ["too many texts", entries({ 1: { content: Array.from({ length: AKV_LIMITS.selectors + 1 }, () => "a") } }), "drop_rule.drop_messages[1].content"],
  ])("%s is refused by field", (_what, list, param) => {
    expect(refusal(() => read({ type: "text_drop", drop_messages: list }))).toMatchObject({ code: "akv_invalid", param });
  });

  test("without a user message there is no boundary", () => {
    const chat: DialectMessage[] = [{ role: "system", content: "a" }];
    expect(refusal(() => read({ type: "text_drop", drop_messages: [{ role: "system", content: "a" }] }, chat))).toMatchObject({ param: "drop_rule.drop_messages" });
  });
});

describe("keep_text_drop", () => {
  const full: DialectMessage[] = [
    { role: "user", content: "what is two and three" },
    { role: "assistant", content: "two and three is five" },
    { role: "user", content: "then take it times two" },
  ];

  test("keeps what the messages show of the full history, matched from the right at the last place", () => {
    const rule = { type: "keep_text_drop", full_messages: full };
    expect(visible(rule, [{ role: "user", content: "times two" }])).toBe("<user>times two;<assistant>");
    expect(visible(rule, [{ role: "assistant", content: "three is five" }, { role: "user", content: "then take it times two" }])).toBe("<assistant>three is five;<user>then take it times two;<assistant>");
    expect(visible(rule, [{ role: "user", content: "two" }, { role: "user", content: "take it" }])).toBe("<user>two;<user>take it;<assistant>");
    expect(visible(rule, full)).toBe(renderChat(full).text);
  });

  test("acts behind the last message of the full history", () => {
    expect(readAkv({ drop_rule: { type: "keep_text_drop", full_messages: full } }, { messages: 3, chat: [full[2]!] }).map(({ at }) => at)).toEqual([{ message: 2 }, { message: 2 }]);
  });

  test("role and protocol fields must match", () => {
    const calls: DialectMessage[] = [{ role: "user", content: "a" }, { role: "assistant", content: "", tool_calls: [{ id: "1" }] }, { role: "tool", content: "r", tool_call_id: "1" }];
    const rule = { type: "keep_text_drop", full_messages: calls };
    expect(visible(rule, [calls[1]!, calls[2]!])).not.toContain("<user>");
    expect(refusal(() => visible(rule, [{ ...calls[2]!, tool_call_id: "2" }]))).toMatchObject({ param: "drop_rule.full_messages" });
    expect(refusal(() => visible(rule, [{ ...calls[1]!, tool_calls: null }]))).toMatchObject({ param: "drop_rule.full_messages" });
  });

  test("force uses the visible messages as a plain prompt where they do not fit, and says so", () => {
    const other: DialectMessage[] = [{ role: "user", content: "something else" }];
    const rule = { type: "keep_text_drop", full_messages: full, force: true };
    expect(akvProjection({ drop_rule: rule }, other)).toMatchObject({ messages: other, directives: [], fallback: expect.stringContaining("messages[0]") });
    expect(visible(rule, other)).toBe("<user>something else;<assistant>");
    expect(refusal(() => visible({ ...rule, force: false }, other))).toMatchObject({ code: "akv_invalid", param: "drop_rule.full_messages" });
  });

  test.each<[string, object, string]>([
    ["no list", { full_messages: {} }, "drop_rule.full_messages"],
    ["an empty list", { full_messages: [] }, "drop_rule.full_messages"],
    ["a message without a role", { full_messages: [{ content: "a" }] }, "drop_rule.full_messages[0]"],
    ["a force that is no boolean", { full_messages: full, force: 1 }, "drop_rule.force"],
    ["an unknown field", { full_messages: full, keep: 1 }, "drop_rule.keep"],
  ])("%s is refused by field", (_what, fields, param) => {
    expect(refusal(() => read({ type: "keep_text_drop", ...fields }, [full[2]!]))).toMatchObject({ code: "akv_invalid", param });
  });

  test("AKV's limits of messages hold", () => {
    const many = Array.from({ length: AKV_LIMITS.messages + 1 }, (): DialectMessage => ({ role: "user", content: "a" }));
    expect(refusal(() => read({ type: "keep_text_drop", full_messages: many }, [many[0]!]))).toMatchObject({ param: "drop_rule.full_messages" });
  });
});
