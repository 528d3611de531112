import { expect, test } from "vitest";
import { type Directive, DirectiveError, fold, isContextRequest, type Log, readAkv } from "../src/index.ts";
import { renderChat } from "./chat-text.ts";
import { chatLog } from "./random-logs.ts";

/** The 25 rows of AKV's table of edge cases: what AKV does, and what we do. */

interface Row {
  row: number;
  what: string;
  akv: string;
  ours: string;
  check: () => void;
}

function refusal(run: () => unknown): DirectiveError {
  try {
    run();
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function akv(body: Record<string, unknown>, log: Log, compat?: "akv") {
  return fold(log, readAkv(body, { messages: log.chat!.messages, compat }), { compat });
}

function keys(log: Log, directives: Directive[]): string[] {
  return fold(log, directives).events.map(({ key }) => key);
}

const chat = chatLog([3, 4, 5, 6], 2);
const THINKING = [{ role: "user", content: "q" }, { role: "assistant", content: "a", reasoning_content: "t" }];

const rows: Row[] = [
  { row: 1, what: "null or empty fields", akv: "context request", ours: "the same", check: () => {
    for (const body of [{ drop_message: null }, { drop_message: {} }, { reposition: [] }, { drop_rule: null }, { directives: [] }]) expect(isContextRequest(body)).toBe(true);
    expect(isContextRequest({ messages: [] })).toBe(false);
    expect(readAkv({ drop_message: {}, reposition: [] }, { messages: 2 })).toEqual([]);
  } },
  { row: 2, what: "trigger ≥ N", akv: "drop ignored; reposition error", ours: "both errors; compat ignores the drop", check: () => {
    expect(refusal(() => akv({ drop_message: { "4": [0] } }, chat))).toMatchObject({ param: 'drop_message["4"]' });
    expect(refusal(() => akv({ reposition: [4] }, chat, "akv"))).toMatchObject({ param: "reposition[0]" });
    expect(akv({ drop_message: { "4": [0] } }, chat, "akv").events).toEqual([]);
  } },
  { row: 3, what: "trigger = last", akv: "before the generation header", ours: "the same", check: () => {
    expect(akv({ drop_message: { "3": [0] } }, chat).events[0]).toMatchObject({ at: 18 });
  } },
  { row: 4, what: "self-drop", akv: "allowed", ours: "the same", check: () => {
    expect(akv({ drop_message: { "2": [2] } }, chat).events[0]).toMatchObject({ at: 12, hidden: [[7, 12]] });
  } },
  { row: 5, what: "same id, two triggers", akv: "first wins", ours: "the same, and the second says already_hidden", check: () => {
    const { events, outcomes } = akv({ drop_message: { "1": [0], "2": [0] } }, chat);
    expect(events.map(({ at }) => at)).toEqual([7]);
    expect(outcomes[1]).toMatchObject({ status: "no_effect", reason: "already_hidden" });
  } },
  { row: 6, what: "tail-only drop + reposition", akv: "no-op, gap remains", ours: "the counter comes back; compat leaves the gap", check: () => {
    const body = { drop_message: { "3": [3] }, reposition: [3] };
    expect(akv(body, chat).nextPosition).toBe(14);
    expect(akv(body, chat, "akv").nextPosition).toBe(20);
  } },
  { row: 7, what: "reposition without drops", akv: "no-op, no key change", ours: "the same", check: () => {
    expect(akv({ reposition: [1, 2] }, chat).events).toEqual([]);
  } },
  { row: 8, what: "drop everything at a reposition", akv: "error", ours: "error in AKV's form; counter 0 in ours", check: () => {
    expect(refusal(() => akv({ drop_message: { "1": [0, 1] }, reposition: [1] }, chat))).toMatchObject({ param: "reposition[0]" });
    expect(fold(chatLog([3]), [{ op: "drop", target: { messages: [0] } }, { op: "reposition" }]).nextPosition).toBe(0);
  } },
  { row: 9, what: "drop message 0", akv: "drops tool schema and BOS too", ours: "the same: what the template adds before it is message 0's", check: () => {
    expect(akv({ drop_message: { "1": [0] } }, chat).events[0]!.hidden).toEqual([[0, 3]]);
  } },
  { row: 10, what: "no system message, tools given", akv: "schema owned by the user message 0", ours: "the same", check: () => {
    const log: Log = { ...chat, chat: { ...chat.chat!, roles: ["user", "assistant", "tool", "assistant"] } };
    expect(akv({ drop_message: { "1": [0] } }, log).outcomes[0]!.ranges).toEqual([[0, 3]]);
  } },
  { row: 11, what: "one of several tool results sharing a wrapper", akv: "wrapper halves unbalanced", ours: "the same: a message's tokens go, no others; the report names the ranges", check: () => {
    expect(akv({ drop_message: { "3": [2] } }, chat).outcomes[0]!.ranges).toEqual([[7, 12]]);
  } },
  { row: 12, what: "a token across a border", akv: "first character's owner", ours: "the same for messages; parts and texts take only whole tokens", check: () => {
    const log: Log = { ...chat, chat: { ...chat.chat!, part: () => [[4, 6]] } };
    expect(fold(log, [{ op: "drop", target: { messages: [1], part: "content" } }]).events[0]!.hidden).toEqual([[4, 6]]);
  } },
  { row: 13, what: "message renders empty", akv: "drop no-op; reposition error", ours: "the same, and the drop says no_whole_token", check: () => {
    const log = chatLog([3, 0, 4]);
    expect(akv({ drop_message: { "2": [1] } }, log).outcomes[0]).toMatchObject({ status: "no_effect", reason: "no_whole_token" });
    expect(refusal(() => akv({ reposition: [1] }, log))).toMatchObject({ param: "reposition[0]" });
  } },
  { row: 14, what: "late system message, hoisted by the template", akv: '"reordered" failure', ours: "the same, naming the message", check: () => {
    const log: Log = { ...chat, chat: { ...chat.chat!, owners: Int32Array.from(chat.chat!.owners, (owner, token) => (token < 3 ? 2 : owner)) } };
    expect(refusal(() => akv({ drop_message: { "1": [0] } }, log))).toMatchObject({ code: "log_invalid", param: "messages[1]" });
  } },
  { row: 15, what: "reasoning stripped or duplicated by the template", akv: "400", ours: "the same in AKV's form; no_effect in ours", check: () => {
    const { log } = renderChat(THINKING.map(({ role, content }) => ({ role, content })));
    const rule = readAkv({ drop_rule: { type: "thinking_drop" } }, { messages: 2, chat: THINKING });
    expect(refusal(() => fold(log, rule))).toMatchObject({ kind: "invalid", param: "messages[1]" });
    expect(fold(log, [{ op: "drop", target: { messages: [1], part: "thinking" } }]).outcomes[0]).toMatchObject({ status: "no_effect" });
  } },
  { row: 16, what: "parallel results, drop mid-batch", akv: "later results in the batch see less", ours: "the same", check: () => {
    const { births } = akv({ drop_message: { "2": [1] } }, chat);
    expect(births.map(({ token, view }) => [token, view.length])).toEqual([[0, 0], [12, 2]]);
  } },
  { row: 17, what: "op moved to an earlier trigger than last turn", akv: "new branch, recompute from there", ours: "the same: the earlier event stands where the branch begins", check: () => {
    expect(akv({ drop_message: { "2": [0] } }, chat).events[0]!.cell).toBe(12);
    expect(akv({ drop_message: { "1": [0] } }, chat).events[0]!.cell).toBe(7);
  } },
  { row: 18, what: "same text, different drop time", akv: "separate KV", ours: "the same: no path has both", check: () => {
    const places = [1, 2].map((trigger) => akv({ drop_message: { [trigger]: [0] } }, chat).events.map(({ cell, key }) => `${cell} ${key}`));
    expect(places[0]).not.toEqual(places[1]);
  } },
  { row: 19, what: "hole before the unmatched suffix, unread", akv: "stays a hole", ours: "the same: no birth behind the drop reads it", check: () => {
    const { births } = akv({ drop_message: { "1": [0] } }, chat);
    expect(births[1]!.view.some(({ cell }) => cell < 3)).toBe(false);
  } },
  { row: 20, what: "drop hides a page that another request reads", akv: "kept", ours: "the same: the paths are one up to the event", check: () => {
    const dropped = akv({ drop_message: { "2": [0] } }, chat);
    expect(dropped.events[0]!.cell).toBe(12);
    expect([...dropped.tokens.subarray(0, 12)]).toEqual([...fold(chat, []).tokens.subarray(0, 12)]);
  } },
  { row: 21, what: "final context fits, intermediate does not", akv: "503 before allocation", ours: "400 before anything", check: () => {
    const log = chatLog([3, 4, 5, 6], 0, 11);
    expect(refusal(() => akv({ drop_message: { "2": [0, 1] }, reposition: [2] }, log))).toMatchObject({ kind: "invalid", code: "context_length_exceeded" });
  } },
  { row: 22, what: "raw log longer than the context, positions fit", akv: "served", ours: "the same", check: () => {
    const log = chatLog([3, 4, 5, 6], 0, 12);
    expect(akv({ drop_message: { "2": [0, 1] }, reposition: [2] }, log).nextPosition).toBe(11);
  } },
  { row: 23, what: "continue_final_message", akv: "Jinja yes, GPT-OSS no", ours: "without a generation header the end of the log is the boundary (the server has not built the field: 422)", check: () => {
    expect(akv({ drop_message: { "3": [0] } }, chatLog([3, 4, 5, 6])).events[0]).toMatchObject({ at: 18, cell: 18 });
  } },
  { row: 24, what: 'duplicate keys "3" and " 3 "', akv: "last silently wins", ours: "error naming the key; compat lets the last win", check: () => {
    const body = { drop_message: { "3": [0], " 3 ": [1] } };
    expect(refusal(() => akv(body, chat))).toMatchObject({ param: 'drop_message[" 3 "]' });
    expect(akv(body, chat, "akv").events[0]!.hidden).toEqual([[3, 7]]);
  } },
  { row: 25, what: "abort in the middle of prefill", akv: "private slots freed; published chunks stay", ours: "a fold holds nothing: leaving it leaves nothing behind", check: () => {
    const directives: Directive[] = [{ op: "drop", target: { messages: [0] }, at: { message: 1 } }];
    const first = keys(chat, directives);
    refusal(() => fold(chat, [...directives, { op: "reposition", at: { message: 9 } }]));
    expect(keys(chat, directives)).toEqual(first);
  } },
];

test.each(rows)("$row: $what (AKV: $akv; ours: $ours)", ({ check }) => {
  expect(check).not.toThrow();
});

test("every row of the table has its test", () => {
  expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
});
