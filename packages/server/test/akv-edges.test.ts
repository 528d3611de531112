import { afterAll, beforeAll, expect, test } from "vitest";
import { REASONING_TEMPLATE } from "./scripted.ts";
import { openWorld, type Answer, type World } from "./world.ts";

/** AKV's table of 25 edge cases over HTTP: what AKV does, and what we answer. */

interface Report {
  prompt_tokens: number;
  visible_tokens: number;
  next_position: number;
  stages: number;
  computed_tokens: number;
  recovered_tokens: number;
  skipped_tokens: number;
  directives: { status: string; reason?: string; at_token: number; ranges?: [number, number][]; hidden?: number }[];
}

const TOOLS = [{ type: "function", function: { name: "look" } }];
/** Tools before the first message; results of tools beside each other share a wrapper; an empty message leaves no trace. */
const WRAPPING_TEMPLATE =
  "{% if tools %}{{ 'tools: ' }}{% for tool in tools %}{{ tool.function.name }}{% endfor %}{{ '\n' }}{% endif %}" +
  "{% for message in messages %}{% if message.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<results>' }}{% endif %}{{ '[' + message.content + ']' }}" +
  "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '</results>\n' }}{% endif %}" +
  "{% elif message.content %}{{ message.role + ': ' + message.content + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
/** Puts system messages first, wherever they stand. */
const HOISTING_TEMPLATE =
  "{% for message in messages %}{% if message.role == 'system' %}{{ 'system: ' + message.content + '\n' }}{% endif %}{% endfor %}" +
  "{% for message in messages %}{% if message.role != 'system' %}{{ message.role + ': ' + message.content + '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

let plain: World;
let wrapping: World;
let hoisting: World;
let reasoning: World;
let small: World;
beforeAll(async () => {
  plain = await openWorld({ pageSize: 1, pages: 4000 });
  wrapping = await openWorld({ chatTemplate: WRAPPING_TEMPLATE });
  hoisting = await openWorld({ chatTemplate: HOISTING_TEMPLATE });
  reasoning = await openWorld({ chatTemplate: REASONING_TEMPLATE });
  small = await openWorld({ contextLength: 100 });
});
afterAll(async () => {
  for (const world of [plain, wrapping, hoisting, reasoning, small]) await world.close();
});

const user = (content: string) => ({ role: "user", content });
/** Four messages that no other row has: what is cached is the row's own. */
const four = (row: string) => [user(`${row} one`), { role: "assistant", content: "two" }, user("three"), user("four")];
const lengthOf = ({ role, content }: { role: string; content: string }) => role.length + content.length + 4;
const startOf = (messages: { role: string; content: string }[], index: number) => messages.slice(0, index).reduce((sum, message) => sum + lengthOf(message), 0);

const send = (world: World, messages: object[], fields: object) => world.post("/v1/chat/completions", { messages, max_tokens: 1, temperature: 0, ...fields });
async function report(world: World, messages: object[], fields: object): Promise<Report> {
  const answer = await send(world, messages, { cache: { report: true }, ...fields });
  if (answer.status !== 200) throw new Error(answer.text);
  return (answer.json as { cache: Report }).cache;
}
const COMPAT = { cache: { compat: "akv", report: true } };

function refused(answer: Answer, status: number, param: string | null | RegExp): void {
  const { error } = answer.json as { error: { param: string | null } };
  expect(answer.status).toBe(status);
  if (param instanceof RegExp) expect(error.param).toMatch(param);
  else expect(error.param).toBe(param);
}

interface Row {
  row: number;
  what: string;
  akv: string;
  ours: string;
  check(): Promise<void>;
}

const rows: Row[] = [
  { row: 1, what: "null or empty fields", akv: "context request", ours: "the same", async check() {
    for (const fields of [{ drop_message: null }, { drop_message: {} }, { drop_rule: null }, { reposition: [] }, { directives: [] }]) {
      expect((await send(plain, four("1"), fields)).json).toMatchObject({ cache: { directives: [] }, usage: { prompt_tokens_details: { repos_tokens: 0, drop_skipped_tokens: 0 } } });
    }
    expect((await send(plain, four("1"), {})).json).not.toHaveProperty("cache");
  } },
  { row: 2, what: "trigger ≥ N", akv: "drop ignored; reposition error", ours: "both errors; compat ignores the drop", async check() {
    refused(await send(plain, four("2"), { drop_message: { 4: [0] } }), 400, 'drop_message["4"]');
    refused(await send(plain, four("2"), { reposition: [4], ...COMPAT }), 400, "reposition[0]");
    expect((await report(plain, four("2"), { drop_message: { 4: [0] }, ...COMPAT })).directives).toEqual([]);
  } },
  { row: 3, what: "trigger = last", akv: "before the generation header", ours: "the same", async check() {
    const messages = four("3");
    expect((await report(plain, messages, { drop_message: { 3: [0] } })).directives[0]!.at_token).toBe(startOf(messages, 4));
  } },
  { row: 4, what: "self-drop", akv: "allowed", ours: "the same", async check() {
    const messages = four("4");
    expect((await report(plain, messages, { drop_message: { 2: [2] } })).directives).toMatchObject([{ status: "applied", at_token: startOf(messages, 3), ranges: [[startOf(messages, 2), startOf(messages, 3)]] }]);
  } },
  { row: 5, what: "same id, two triggers", akv: "first wins", ours: "the same, and the second says already_hidden", async check() {
    expect((await report(plain, four("5"), { drop_message: { 1: [0], 2: [0] } })).directives).toMatchObject([{ status: "applied" }, { status: "no_effect", reason: "already_hidden" }]);
  } },
  { row: 6, what: "tail-only drop + reposition", akv: "no-op, gap remains", ours: "the counter comes back; compat leaves the gap", async check() {
    const fields = { drop_message: { 3: [3] }, reposition: [3] };
    const { visible_tokens: visible, next_position: position } = await report(plain, four("6"), fields);
    expect(position).toBe(visible);
    expect((await report(plain, four("6"), { ...fields, ...COMPAT })).next_position).toBe(visible + lengthOf(user("four")));
  } },
  { row: 7, what: "reposition without drops", akv: "no-op, no key change", ours: "the same", async check() {
    await report(plain, four("7"), {});
    expect(await report(plain, four("7"), { reposition: [1, 2] })).toMatchObject({ stages: 1, computed_tokens: 1, directives: [{ status: "no_effect" }, { status: "no_effect" }] });
  } },
  { row: 8, what: "drop everything at a reposition", akv: "error", ours: "error in AKV's form; counter 0 in ours", async check() {
    refused(await send(plain, four("8"), { drop_message: { 1: [0, 1] }, reposition: [1] }), 400, "reposition[0]");
    const native = await report(plain, four("8"), { directives: [{ op: "drop", target: { messages: [0, 1, 2, 3] } }, { op: "reposition" }] });
    expect(native.next_position).toBe("assistant".length + 2);
  } },
  { row: 9, what: "drop message 0", akv: "drops tool schema and BOS too", ours: "the same", async check() {
    const [{ ranges }] = (await report(wrapping, [{ role: "system", content: "be kind" }, user("q")], { tools: TOOLS, drop_message: { 1: [0] } })).directives as [Report["directives"][0]];
    expect(ranges).toEqual([[0, "tools: look\nsystem: be kind\n".length]]);
  } },
  { row: 10, what: "no system message, tools given", akv: "schema owned by the user message 0", ours: "the same", async check() {
    expect((await report(wrapping, [user("q"), user("r")], { tools: TOOLS, drop_message: { 1: [0] } })).directives[0]!.ranges).toEqual([[0, "tools: look\nuser: q\n".length]]);
  } },
  { row: 11, what: "one of several tool results sharing a wrapper", akv: "wrapper halves unbalanced", ours: "the same: a message's own tokens go, and the report names them", async check() {
    const messages = [user("q"), { role: "tool", content: "a", tool_call_id: "1" }, { role: "tool", content: "b", tool_call_id: "2" }, user("r")];
    const start = "user: q\n".length;
    expect((await report(wrapping, messages, { drop_message: { 3: [1] } })).directives[0]!.ranges).toEqual([[start, start + "<results>[a]".length]]);
  } },
  { row: 12, what: "a token across a border", akv: "first character's owner", ours: "the same: owners rise, and each token has one", async check() {
    const { owners, count } = (await plain.post("/tokenize", { messages: four("12") })).json as { owners: number[]; count: number };
    expect(owners).toHaveLength(count);
    expect(owners).toEqual(owners.toSorted((a, b) => a - b));
  } },
  { row: 13, what: "message renders empty", akv: "drop no-op; reposition error", ours: "the same, and the drop says no_whole_token", async check() {
    const messages = [user("q"), { role: "assistant", content: "" }, user("r")];
    expect((await report(wrapping, messages, { drop_message: { 2: [1] } })).directives).toMatchObject([{ status: "no_effect", reason: "no_whole_token" }]);
    refused(await send(wrapping, messages, { reposition: [1] }), 400, "reposition[0]");
  } },
  { row: 14, what: "late system message, hoisted by the template", akv: '"reordered" failure', ours: "422 that names the message", async check() {
    const messages = [user("q"), { role: "system", content: "s" }];
    refused(await send(hoisting, messages, { drop_message: { 1: [0] } }), 422, /^messages\[\d\]$/);
  } },
  { row: 15, what: "reasoning stripped or duplicated by the template", akv: "400", ours: "400 in AKV's form; no_effect in ours", async check() {
    const messages = [user("q"), { role: "assistant", content: "a", reasoning_content: "hm" }, user("r")];
    refused(await send(plain, messages, { drop_rule: { type: "thinking_drop" } }), 400, "messages[1]");
    expect((await report(plain, messages, { directives: [{ op: "drop", target: { messages: [1], part: "thinking" } }] })).directives).toMatchObject([{ status: "no_effect" }]);
    expect((await report(reasoning, messages, { drop_rule: { type: "thinking_drop" } })).directives).toMatchObject([{ status: "applied", hidden: 2 }]);
  } },
  { row: 16, what: "parallel results, drop mid-batch", akv: "later results in the batch see less", ours: "the same: the rest of the batch is a stage of its own", async check() {
    const messages = [user("q"), { role: "tool", content: "a", tool_call_id: "1" }, { role: "tool", content: "b", tool_call_id: "2" }];
    const { stages, directives } = await report(wrapping, messages, { drop_message: { 1: [0] } });
    expect([stages, directives[0]!.at_token]).toEqual([2, "user: q\n<results>[a]".length]);
  } },
  { row: 17, what: "op moved to an earlier trigger than last turn", akv: "new branch, recompute from there", ours: "the same", async check() {
    const messages = four("17");
    await report(plain, messages, { drop_message: { 2: [0] } });
    const { prompt_tokens: all, computed_tokens: computed } = await report(plain, messages, { drop_message: { 1: [0] } });
    expect(computed).toBe(all - startOf(messages, 2));
  } },
  { row: 18, what: "same text, different drop time", akv: "separate KV", ours: "the same: neither finds the other's cells behind the edit", async check() {
    const messages = four("18");
    const [early, late] = [{ drop_message: { 1: [0] } }, { drop_message: { 2: [0] } }];
    await report(plain, messages, early);
    await report(plain, messages, late);
    for (const fields of [early, late]) expect((await report(plain, messages, fields)).computed_tokens).toBe(1);
    expect((await report(plain, messages, {})).computed_tokens).toBe(startOf(messages, 4) + "assistant".length + 2 - startOf(messages, 3));
  } },
  { row: 19, what: "hole before the unmatched suffix, unread", akv: "stays a hole", ours: "the same", async check() {
    const world = await openWorld({ pageSize: 1, pages: 400 });
    const messages = four("19");
    const fields = { drop_message: { 2: [0] } };
    await report(world, messages, fields);
    const hidden = lengthOf(messages[0]!);
    world.service.engine.evictUntilFree(world.service.engine.state().pages.free + hidden);
    expect(await report(world, [...messages, user("five")], { ...fields, max_tokens: 1 })).toMatchObject({ recovered_tokens: 0, skipped_tokens: hidden });
    await world.close();
  } },
  { row: 20, what: "drop hides a page that another request reads", akv: "kept", ours: "the same: both have what they asked for", async check() {
    const messages = four("20");
    const [dropping, reading] = await Promise.all([report(plain, messages, { drop_message: { 2: [0] } }), report(plain, messages, {})]);
    expect([dropping.visible_tokens, reading.visible_tokens]).toEqual([dropping.prompt_tokens - lengthOf(messages[0]!), reading.prompt_tokens]);
    plain.service.engine.checkIntegrity();
  } },
  { row: 21, what: "final context fits, intermediate does not", akv: "503 before allocation", ours: "400 before anything", async check() {
    const messages = [user("x".repeat(50)), user("y".repeat(50)), user("z")];
    const answer = await send(small, messages, { drop_message: { 1: [0] }, reposition: [1] });
    refused(answer, 400, "messages");
    expect(answer.json).toMatchObject({ error: { code: "context_length_exceeded" } });
  } },
  { row: 22, what: "raw log longer than the context, positions fit", akv: "served", ours: "the same", async check() {
    const messages = [user("x".repeat(50)), user("y"), user("z".repeat(50))];
    const { prompt_tokens: raw, next_position: position } = await report(small, messages, { drop_message: { 1: [0] }, reposition: [1] });
    expect([raw > 100, position < 100]).toEqual([true, true]);
  } },
  { row: 23, what: "continue_final_message", akv: "Jinja yes, GPT-OSS no", ours: "not built: 422 by name; a log without a header ends at its last message", async check() {
    refused(await send(plain, four("23"), { continue_final_message: true, drop_message: { 3: [0] } }), 422, "continue_final_message");
    const messages = four("23");
    expect((await report(plain, messages, { add_generation_prompt: false, drop_message: { 3: [0] } })).directives[0]!.at_token).toBe(startOf(messages, 4));
  } },
  { row: 24, what: 'duplicate keys "3" and " 3 "', akv: "last silently wins", ours: "error naming the key; compat lets the last win", async check() {
    const fields = { drop_message: { "3": [0], " 3 ": [1] } };
    refused(await send(plain, four("24"), fields), 400, 'drop_message[" 3 "]');
    const messages = four("24");
    expect((await report(plain, messages, { ...fields, ...COMPAT })).directives[0]!.ranges).toEqual([[startOf(messages, 1), startOf(messages, 2)]]);
  } },
  { row: 25, what: "abort in the middle of prefill", akv: "private slots freed; published chunks stay", ours: "the same, and every page is in the tree or free", async check() {
    const world = await openWorld({ pageSize: 4, pages: 400, engineLimits: { rowsPerStepMax: 8 } });
    world.runtime.script.stepMs = 5;
    await world.app.fastify.listen({ port: 0, host: "127.0.0.1" });
    const { port } = world.app.fastify.server.address() as { port: number };
    const body = JSON.stringify({ messages: [user("x".repeat(400)), user("y")], drop_message: { 1: [0] }, max_tokens: 1 });
    const controller = new AbortController();
    const outcome = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body, signal: controller.signal }).catch((error: Error) => error.name);
    await expect.poll(() => world.runtime.steps).toBeGreaterThan(3);
    controller.abort();
    expect(await outcome).toBe("AbortError");
    await expect.poll(() => world.service.engine.state().running).toBe(0);
    const { pages } = world.service.engine.state();
    expect(pages).toMatchObject({ leased: 0, held: 0 });
    expect(pages.cached).toBeGreaterThan(0);
    expect(pages.free + pages.cached).toBe(pages.total);
    await world.close();
  } },
];

test.each(rows)("$row: $what (AKV: $akv; ours: $ours)", async ({ check }) => {
  await expect(check()).resolves.toBeUndefined();
});

test("every row of the table has its test", () => {
  expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
});
