import { expect, test } from "vitest";
import {
  appliedEdits,
  type AnthropicLog,
  type DialectMessage,
  diffMessages,
  type Directive,
  DirectiveError,
  fold,
  readCacheControl,
  readContextManagement,
  readLeyline,
  readTensorRt,
  readTransform,
  readVllm,
  scratchThinking,
  writeAkv,
  writeCacheReuse,
  writeLeyline,
  writeTensorRt,
  writeTextEdits,
} from "../src/index.ts";
import { renderChat } from "./chat-text.ts";
import { chatLog, Random, randomDirectives, randomLog, tokenLog } from "./random-logs.ts";

function refusal(run: () => unknown): DirectiveError {
  try {
    run();
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

/** What the model sees at the end. */
function visibleText(messages: readonly DialectMessage[], directives: readonly Directive[]): string {
  const { log, read } = renderChat(messages);
  return read(writeTextEdits(fold(log, directives)).value.tokens);
}

test("Leyline's tuples become splices in coordinates of the original prompt, and come back", () => {
  const tuples = [
    [2, 5, [900], "AMORTIZE"],
    { s_start: 7, s_end: 9, R: [], m: "FORGET" },
    [9, 9, [901, 902]],
  ];
  const directives = readLeyline(tuples);
  expect(directives.map(({ target, with: tokens, mode, source }) => ({ target, tokens, mode, source }))).toEqual([
    { target: { tokens: [2, 5] }, tokens: [900], mode: "amortize", source: "leyline" },
    { target: { tokens: [7, 9] }, tokens: [], mode: "forget", source: "leyline" },
    { target: { tokens: [9, 9] }, tokens: [901, 902], mode: "amortize", source: "leyline" },
  ]);
  expect(fold(tokenLog(12), directives).outcomes.map(({ delta }) => delta)).toEqual([-2, -2, 2]);
  const { value, losses } = writeLeyline(tokenLog(12), directives);
  expect(value).toEqual([
    { s_start: 2, s_end: 5, R: [900], m: "AMORTIZE" },
    { s_start: 7, s_end: 9, R: [], m: "FORGET" },
    { s_start: 9, s_end: 9, R: [901, 902], m: "AMORTIZE" },
  ]);
  expect(losses).toEqual(["directives[1] (splice): nothing is erased; Leyline only prefills again"]);
  expect(refusal(() => readLeyline([[1, 2]]))).toMatchObject({ param: "leyline[0]" });
  expect(refusal(() => fold(tokenLog(12), readLeyline([[1, 4, []], [3, 5, []]])))).toMatchObject({ code: "target_overlap", param: "leyline[1]" });
});

test("what Leyline cannot say is named", () => {
  const { losses } = writeLeyline(tokenLog(20), [
    { op: "drop", target: { tokens: [1, 3] }, at: { token: 5 } },
    { op: "splice", target: { tokens: [6, 7] }, with: [], mode: "refresh" },
    { op: "pin", target: { tokens: [0, 1] } },
  ]);
  expect(losses).toEqual([
    "directives[0] (drop): the boundary is lost; Leyline applies everything at the end of the prompt",
    "directives[0] (drop): positions behind the drop close up; Leyline knows no gap",
    "directives[1] (splice): cells behind the target are not computed again",
    "directives[2] (pin): retention is lost",
  ]);
});

test("TensorRT-LLM's retention ranges keep priority and duration through directives and back", () => {
  const log = tokenLog(100);
  const config = {
    token_range_retention_configs: [
      { token_start: 0, token_end: 40, priority: 90, duration_ms: 30_000 },
      { token_start: 60, token_end: null, priority: 10, duration_ms: null },
    ],
    decode_retention_priority: 50,
  };
  const { value, losses } = readTensorRt(config, log);
  expect(losses).toEqual(["kv_cache_retention_config.decode_retention_priority: generated tokens keep the ordinary priority"]);
  expect(fold(log, value).retention).toEqual([
    { cells: [0, 40], priority: 90, seconds: 30, directive: 0 },
    { cells: [60, 100], priority: 10, seconds: null, directive: 1 },
  ]);
  expect(writeTensorRt(log, value).value.token_range_retention_configs).toEqual([
    { token_start: 0, token_end: 40, priority: 90, duration_ms: 30_000 },
    { token_start: 60, token_end: 100, priority: 10, duration_ms: null },
  ]);
  const overlapping = { token_range_retention_configs: [config.token_range_retention_configs[0]!, { ...config.token_range_retention_configs[1]!, token_start: 39 }] };
  expect(refusal(() => readTensorRt(overlapping, log))).toMatchObject({ param: "kv_cache_retention_config.token_range_retention_configs[1]" });
  expect(refusal(() => readTensorRt({ token_range_retention_configs: [{ token_start: 0, priority: 101 }] }, log)).param).toContain("[0].priority");
});

test("overlapping pins are cut for TensorRT-LLM so that the greater priority holds", () => {
  const pins: Directive[] = [
    { op: "pin", target: { tokens: [0, 50] }, priority: 60 },
    { op: "pin", target: { tokens: [20, 70] }, until: { seconds: 2 } },
    { op: "drop", target: { tokens: [80, 90] } },
  ];
  const { value, losses } = writeTensorRt(tokenLog(100), pins);
  expect(value.token_range_retention_configs).toEqual([
    { token_start: 0, token_end: 20, priority: 60, duration_ms: null },
    { token_start: 20, token_end: 70, priority: 100, duration_ms: 2_000 },
  ]);
  expect(losses).toEqual(['directives[2] (drop): "hide" is lost; TensorRT-LLM only ranks what it keeps']);
});

test("vLLM-style retention names ranges or the whole prompt", () => {
  const json = { retention_directives: [{ start: 5, end: 9, priority: 80, duration: 60 }, { covers_prompt: true, priority: 50 }], retention_scope: "cluster" };
  const { value, losses } = readVllm(json, tokenLog(20));
  expect(losses).toEqual(["vllm.retention_scope: cells are kept within the tenant"]);
  expect(fold(tokenLog(20), value).retention).toEqual([
    { cells: [5, 9], priority: 80, seconds: 60, directive: 0 },
    { cells: [0, 20], priority: 50, seconds: null, directive: 1 },
  ]);
});

/** user, then turns of assistant call + tool result, each 10 tokens a message. */
function toolChat(uses: number, thinks = false): AnthropicLog {
  return {
    messages: 1 + 2 * uses,
    toolUses: Array.from({ length: uses }, (_, i) => ({ call: 1 + 2 * i, result: 2 + 2 * i, name: i === 0 ? "read" : "grep", tokens: 8 })),
    turns: Array.from({ length: uses }, (_, i) => ({ message: 1 + 2 * i, thinks })),
    tokensBefore: (message) => 10 * message,
  };
}

test("clear_tool_uses clears at the turn when its trigger was reached, and repeats itself as the chat grows", () => {
  const json = { edits: [{ type: "clear_tool_uses_20250919", trigger: { type: "tool_uses", value: 3 }, keep: { type: "tool_uses", value: 2 }, clear_tool_inputs: ["read"] }] };
  const places = (uses: number) => readContextManagement(json, toolChat(uses)).value.map(({ op, target, at }) => [op, (target as { messages: number[] }).messages[0], (at as { message: number }).message]);
  expect(places(3)).toEqual([]);
  expect(places(4)).toEqual([["splice", 2, 8], ["drop", 1, 8], ["splice", 4, 8]]);
  expect(places(6)).toEqual([...places(4), ["splice", 6, 10], ["splice", 8, 12]]);
});

test("clear_tool_uses honours the token trigger, excluded tools and clear_at_least", () => {
  const edits = (more: object) => readContextManagement({ edits: [{ type: "clear_tool_uses_20250919", trigger: { type: "input_tokens", value: 85 }, keep: { type: "tool_uses", value: 1 }, ...more }] }, toolChat(4)).value;
  expect(edits({}).map(({ target }) => (target as { messages: number[] }).messages[0])).toEqual([2, 4, 6]);
  expect(edits({ exclude_tools: ["grep"] }).map(({ target }) => (target as { messages: number[] }).messages[0])).toEqual([2]);
  expect(edits({ clear_at_least: { type: "input_tokens", value: 25 } })).toEqual([]);
  expect(readContextManagement({ edits: [{ type: "clear_tool_uses_20250919" }] }, toolChat(9)).value).toEqual([]);
});

test("clear_thinking drops the thinking of all but the last turns, and must come first", () => {
  const json = { edits: [{ type: "clear_thinking_20251015", keep: { type: "thinking_turns", value: 1 } }] };
  const directives = readContextManagement(json, toolChat(3, true)).value;
  expect(directives.map(({ target, at }) => [target, at])).toEqual([
    [{ messages: [1], part: "thinking" }, { message: 4 }],
    [{ messages: [3], part: "thinking" }, { message: 6 }],
  ]);
  expect(readContextManagement({ edits: [{ type: "clear_thinking_20251015", keep: "all" }] }, toolChat(3, true)).value).toEqual([]);
  const wrong = { edits: [{ type: "clear_tool_uses_20250919" }, { type: "clear_thinking_20251015" }] };
  expect(refusal(() => readContextManagement(wrong, toolChat(1)))).toMatchObject({ kind: "invalid", param: "context_management.edits[1].type" });
});

test("context_management answers with what was applied, and refuses what it does not know", () => {
  const messages: DialectMessage[] = [
    { role: "user", content: "go" },
    { role: "assistant", content: "", tool_calls: ["a"] },
    { role: "tool", content: "a long result" },
    { role: "assistant", content: "", tool_calls: ["b"] },
    { role: "tool", content: "another result" },
  ];
  const { log } = renderChat(messages);
  const anthropic: AnthropicLog = {
    messages: 5,
    toolUses: [{ call: 1, result: 2, name: "a", tokens: 13 }, { call: 3, result: 4, name: "b", tokens: 14 }],
    turns: [{ message: 1, thinks: false }, { message: 3, thinks: false }],
    tokensBefore: (message) => log.chat!.owners.findIndex((owner) => owner >= message),
  };
  const edit = { type: "clear_tool_uses_20250919", trigger: { type: "tool_uses", value: 1 }, keep: { type: "tool_uses", value: 1 } };
  const { value } = readContextManagement({ edits: [edit] }, anthropic);
  expect(appliedEdits(fold(log, value))).toEqual([{ type: "clear_tool_uses_20250919", cleared_tool_uses: 1, cleared_input_tokens: 13 - "[cleared]".length }]);
  expect(visibleText(messages, value)).toContain("<tool>[cleared];");
  expect(refusal(() => readContextManagement({ edits: [{ type: "compact_20260112" }] }, anthropic))).toMatchObject({ kind: "unsupported" });
  expect(refusal(() => readContextManagement({ edits: [{ type: "other" }] }, anthropic))).toMatchObject({ param: "context_management.edits[0].type" });
  expect(refusal(() => readContextManagement({ edit: [] }, anthropic))).toMatchObject({ param: "context_management.edit" });
  expect(refusal(() => readContextManagement({ edits: [{ ...edit, kep: 1 }] }, anthropic))).toMatchObject({ param: "context_management.edits[0].kep" });
});

test("cache_control pins everything up to its message for its time to live", () => {
  const directives = readCacheControl([
    { message: 0, cache_control: { type: "ephemeral", ttl: "1h" }, param: "system[0].cache_control" },
    { message: 2, cache_control: { type: "ephemeral" }, param: "messages[1].content[0].cache_control" },
  ]);
  expect(fold(chatLog([3, 4, 5, 6]), directives).retention).toEqual([
    { cells: [0, 3], priority: 100, seconds: 3_600, directive: 0 },
    { cells: [0, 12], priority: 100, seconds: 300, directive: 1 },
  ]);
  expect(refusal(() => readCacheControl([{ message: 0, cache_control: { type: "ephemeral", ttl: "2h" }, param: "system[0].cache_control" }])).param).toContain("ttl");
});

test("two lists of messages differ into directives that make the one look like the other (random edits)", () => {
  const words = ["alpha ", "beta ", "gamma ", "delta ", "a", "aa"];
  for (let seed = 1; seed <= 400; seed++) {
    const random = new Random(seed);
    const before = Array.from({ length: random.int(1, 7) }, (_, i): DialectMessage => ({
      role: ["user", "assistant", "tool"][i % 3]!,
      content: Array.from({ length: random.int(1, 5) }, () => random.pick(words)).join(""),
    }));
    const after = before.flatMap((message) => (random.chance(0.2) ? [] : [random.chance(0.4) ? { ...message, content: edited(random, message.content as string) } : message]));
    const { value, losses } = diffMessages(before, after);
    expect(losses, `seed ${seed}`).toEqual([]);
    expect(visibleText(before, value), `seed ${seed}: ${JSON.stringify([before, after])}`).toBe(renderChat(after).text);
  }
});

function edited(random: Random, content: string): string {
  const start = random.int(0, content.length - 1);
  const end = random.int(start, content.length);
  return content.slice(0, start) + random.pick(["", "[cut]", "a"]) + content.slice(end) || "x";
}

test("what no directive can say about an edit is named", () => {
  const before: DialectMessage[] = [{ role: "user", content: "a" }, { role: "assistant", content: "" }];
  const after: DialectMessage[] = [{ role: "system", content: "new" }, { role: "user", content: "a" }, { role: "assistant", content: "b" }];
  const { value, losses } = diffMessages(before, after);
  expect(value).toEqual([]);
  expect(losses).toEqual(["message 0 of the edited list stands for none of the original; a directive cannot add a message", "message 1 had no content; a directive cannot give it one"]);
});

/** Truncates tool results older than the last one, as Leyline's policy does. */
function truncateOld(messages: readonly DialectMessage[]): DialectMessage[] {
  const tools = [...messages.keys()].filter((i) => messages[i]!.role === "tool");
  return messages.map((message, i) => (tools.includes(i) && i !== tools.at(-1) ? Object.assign({}, message, { content: `${(message.content as string).slice(0, 4)}…` }) : message));
}

function toolTurns(turns: number): DialectMessage[] {
  const messages: DialectMessage[] = [{ role: "user", content: "go" }];
  for (let i = 0; i < turns; i++) messages.push({ role: "assistant", content: `call ${i}` }, { role: "tool", content: `result number ${i}` });
  return messages;
}

test("a transform(messages) policy becomes directives at the turns at which it acted, and they stay as the chat grows", () => {
  const short = readTransform(toolTurns(2), truncateOld).value;
  const long = readTransform(toolTurns(4), truncateOld).value;
  expect(long.slice(0, short.length)).toEqual(short);
  expect(long.map(({ at }) => at)).toEqual([{ message: 4 }, { message: 6 }, { message: 8 }]);
  expect(visibleText(toolTurns(4), long)).toBe(renderChat(truncateOld(toolTurns(4))).text);
});

test("a policy that edits a content again replaces it whole, and one that takes an edit back is told so", () => {
  const chat: DialectMessage[] = [
    { role: "user", content: "0123456789" },
    { role: "assistant", content: "x" },
    { role: "user", content: "y" },
    { role: "assistant", content: "z" },
    { role: "user", content: "w" },
  ];
  const shrink = readTransform(chat, (messages, turn) => messages.map((message, i) => (i === 0 ? Object.assign({}, message, { content: "0123456789".slice(0, 8 - 2 * turn) }) : message)));
  expect(shrink.losses).toEqual([]);
  expect(shrink.value.map(({ at }) => at)).toEqual([{ message: 0 }, { message: 2 }, { message: 4 }]);
  expect(visibleText(chat, shrink.value)).toContain("<user>0123;");
  const undo = readTransform(chat, (messages, turn) => (turn === 0 ? messages.map((message) => Object.assign({}, message, { content: "-" })) : messages));
  expect(undo.losses).toEqual(["message 0: an edit cannot be taken back"]);
});

test("scratch hides the reasoning of each assistant message from what follows it", () => {
  const messages: DialectMessage[] = [
    { role: "user", content: "q" },
    { role: "assistant", content: "a", reasoning_content: "long thought" },
    { role: "user", content: "r" },
    { role: "assistant", content: "b", reasoning_content: "another" },
  ];
  const { log, text } = renderChat(messages);
  const directives = scratchThinking(log);
  // Behind what was said, in front of the end mark.
  expect(directives.map(({ at }) => at)).toEqual([{ token: text.indexOf("a;") + 1 }, { token: text.indexOf("b;") + 1 }]);
  expect(visibleText(messages, directives)).toBe("<user>q;<assistant>{}a;<user>r;<assistant>{}b;<assistant>");
  expect(scratchThinking(tokenLog(4))).toEqual([]);
});

test("compiled for text edits, a fold is its visible text, piece by piece (random logs)", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = new Random(seed);
    const log = randomLog(random);
    const directives = randomDirectives(random, log, { splice: 0.3, forget: 0.1, reposition: 0.2, refresh: 0.1 });
    let folded;
    try {
      folded = fold(log, directives);
    } catch (error) {
      if (error instanceof DirectiveError) continue;
      throw error;
    }
    const { tokens, pieces } = writeTextEdits(folded).value;
    expect(tokens.length).toBe(folded.visible);
    let at = 0;
    for (const { raw, length } of pieces) {
      if (raw >= 0) expect([...tokens.subarray(at, at + length)], `seed ${seed}`).toEqual([...log.tokens.subarray(raw, raw + length)]);
      at += length;
    }
    expect(at).toBe(tokens.length);
  }
});

test("compiled for --cache-reuse, the smallest stretch that moved is the number to give", () => {
  const folded = fold(tokenLog(100), [{ op: "splice", target: { tokens: [10, 30] }, with: [900] }, { op: "splice", target: { tokens: [60, 61] }, with: [] }]);
  const { value, losses } = writeCacheReuse(folded);
  expect(value.pieces).toEqual([{ raw: 0, length: 10 }, { raw: -1, length: 1 }, { raw: 30, length: 30 }, { raw: 61, length: 39 }]);
  expect(value.n_cache_reuse).toBe(30);
  expect(losses).toHaveLength(1);
  expect(writeCacheReuse(fold(tokenLog(9), [])).value.n_cache_reuse).toBe(0);
});

test("compiled for AKV, whole messages at the ends of messages survive and the rest is named", () => {
  const log = chatLog([3, 4, 5, 6], 2);
  const { value, losses } = writeAkv(log, [
    { op: "drop", target: { messages: [0, 1] }, at: { message: 2 } },
    { op: "scratch", target: { messages: [2] }, at: { message: 3 } },
    { op: "drop", target: { tokens: [7, 9] } },
    { op: "drop", target: { messages: [1] }, at: { token: 9 } },
    { op: "splice", target: { messages: [3] }, with: [1], at: { message: 3 } },
  ]);
  expect(value).toEqual({ drop_message: { "2": [0, 1], "3": [2] }, reposition: [3] });
  expect(losses).toEqual([
    "directives[1] (scratch): retention is lost",
    "directives[2] (drop): AKV drops whole messages only, not parts or token ranges",
    "directives[3] (drop): AKV has no boundary before token 9, which is inside a message",
    "directives[4] (splice): AKV cannot replace tokens",
  ]);
});
