import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { scriptOf } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

/** Directives over HTTP: what the report says, for every form of a drop and a reposition. */
let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const MESSAGES = [
  { role: "system", content: "You are kind." },
  { role: "user", content: "first question" },
  { role: "assistant", content: "first answer" },
  { role: "user", content: "second question" },
];

interface Report {
  prompt_tokens: number;
  visible_tokens: number;
  next_position: number;
  cached_tokens: number;
  repositioned_tokens: number;
  computed_tokens: number;
  skipped_tokens: number;
  bytes_moved: number;
  directives: { index: number; op: string; source?: string; at_token: number; ranges?: [number, number][]; status: string; reason?: string; hidden?: number; shifted?: number; delta?: number }[];
  miss: { at_token: number; reason: string; detail: string } | null;
}

const body = (more: object) => ({ messages: MESSAGES, max_tokens: 2, temperature: 0, ...more });
async function reportOf(more: object): Promise<Report> {
  const answer = await world.post("/v1/chat/completions", body({ cache: { report: true }, ...more }));
  if (answer.status !== 200) throw new Error(answer.text);
  return (answer.json as { cache: Report }).cache;
}

async function ownersOf(messages: unknown = MESSAGES): Promise<number[]> {
  return ((await world.post("/tokenize", { messages })).json as { owners: number[] }).owners;
}

const rangeOf = (owners: number[], message: number): [number, number] => [owners.indexOf(message), owners.lastIndexOf(message) + 1];

describe("owners", () => {
  test("are the message of each token: header, body and end marker; the generation header belongs to the number of messages", async () => {
    const owners = await ownersOf();
    const rendered = MESSAGES.map(({ role, content }) => 1 + role.length + 1 + content.length + 1 + 1);
    expect(rendered).toEqual(MESSAGES.map((_, index) => owners.filter((owner) => owner === index).length));
    expect(owners.filter((owner) => owner === MESSAGES.length)).toHaveLength(1 + "assistant\n".length);
    expect(owners).toEqual(owners.toSorted((a, b) => a - b));
  });

  test("count as many as tokens, with and without the header, and detokenize to the rendering", async () => {
    for (const add_generation_prompt of [true, false]) {
      const answer = (await world.post("/tokenize", { messages: MESSAGES, add_generation_prompt })).json as { tokens: number[]; count: number; owners: number[] };
      expect([answer.tokens.length, answer.owners.length]).toEqual([answer.count, answer.count]);
      const { prompt } = (await world.post("/detokenize", { tokens: answer.tokens })).json as { prompt: string };
      expect(prompt).toBe(`${MESSAGES.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join("")}${add_generation_prompt ? "<|im_start|>assistant\n" : ""}`);
    }
  });
});

describe("a drop of a message", () => {
  test.each([
    ["native", { directives: [{ op: "drop", target: { messages: [1] }, at: { message: 3 } }, { op: "reposition", at: { message: 3 } }] }, undefined],
    ["without a boundary", { directives: [{ op: "reposition" }, { op: "drop", target: { messages: [1] } }] }, undefined],
    ["AKV's fields", { drop_message: { 3: [1] }, reposition: [3] }, "drop_message"],
    ["AKV's rule", { drop_rule: { type: "message_drop", drop_messages: { "3": ["1"] } }, reposition: [3] }, "drop_rule"],
  ])("in the form %s hides exactly its tokens and moves what follows", async (_, fields, source) => {
    const owners = await ownersOf();
    const [start, end] = rangeOf(owners, 1);
    const header = owners.indexOf(4);
    const report = await reportOf(fields);
    const drop = report.directives.find((directive) => directive.op === "drop");
    const reposition = report.directives.find((directive) => directive.op === "reposition");
    expect(drop).toMatchObject({ at_token: header, ranges: [[start, end]], status: "applied", hidden: end - start });
    expect(drop?.source).toBe(source);
    expect(reposition).toMatchObject({ at_token: header, status: "applied", shifted: header - end, delta: start - end });
    expect(report).toMatchObject({ prompt_tokens: owners.length, visible_tokens: owners.length - (end - start), next_position: owners.length - (end - start), bytes_moved: 0 });
    expect(report.cached_tokens + report.repositioned_tokens + report.computed_tokens + report.skipped_tokens).toBe(report.prompt_tokens);
  });

  test("all forms are one log: the second form finds what the first computed", async () => {
    const native = await reportOf({ directives: [{ op: "drop", target: { messages: [2] }, at: { message: 3 } }] });
    const akv = await reportOf({ drop_message: { 3: [2] } });
    expect(akv.computed_tokens).toBeLessThanOrEqual(1);
    expect(akv.skipped_tokens).toBe(native.directives[0]?.hidden);
  });

  test("by its tokens is the same as by its number", async () => {
    const owners = await ownersOf();
    const byNumber = await reportOf({ directives: [{ op: "drop", target: { messages: [1] }, at: { message: 2 } }] });
    const byTokens = await reportOf({ directives: [{ op: "drop", target: { tokens: rangeOf(owners, 1) }, at: { token: owners.indexOf(3) } }] });
    expect(byTokens.directives).toEqual(byNumber.directives);
    expect(byTokens.computed_tokens).toBeLessThanOrEqual(1);
  });

  test("that was hidden before has no effect and says why", async () => {
    const report = await reportOf({
      directives: [
        { op: "drop", target: { messages: [1] }, at: { message: 2 } },
        { op: "drop", target: { messages: [1] }, at: { message: 3 } },
      ],
    });
    expect(report.directives.map((directive) => directive.status)).toEqual(["applied", "no_effect"]);
    expect(report.directives[1]?.reason).toEqual(expect.any(String));
  });
});

describe("AKV's other readings", () => {
  test("come with compat: a trigger past the last message is ignored", async () => {
    const report = await reportOf({ drop_message: { 9: [1] }, cache: { compat: "akv", report: true } });
    expect(report.directives).toEqual([]);
  });

  test("a dropped tail keeps its gap only with compat", async () => {
    const owners = await ownersOf();
    const fields = { drop_message: { 3: [3] }, reposition: [3] };
    const header = owners.length - owners.indexOf(4);
    expect((await reportOf(fields)).next_position).toBe(owners.indexOf(3) + header);
    expect((await reportOf({ ...fields, cache: { compat: "akv", report: true } })).next_position).toBe(owners.length);
  });
});

describe("turn by turn", () => {
  test("an agent that sends its directives again computes only what is new", async () => {
    const messages: { role: string; content: string }[] = [{ role: "system", content: "Turn by turn." }];
    const directives: object[] = [];
    let known: number | null = null;
    for (let turn = 0; turn < 8; turn++) {
      messages.push({ role: "user", content: `question ${turn}` });
      if (turn === 4) directives.push({ op: "drop", target: { messages: [1, 2] }, at: { message: messages.length - 1 } }, { op: "reposition", at: { message: messages.length - 1 } });
      const answer = (await world.post("/v1/chat/completions", { messages, directives, max_tokens: 64 })).json as { cache: Report; choices: [{ message: { content: string } }] };
      const { cache } = answer;
      expect(cache.bytes_moved).toBe(0);
      if (known !== null) {
        expect({ turn, computed: cache.computed_tokens }).toEqual({ turn, computed: cache.prompt_tokens - known });
        expect(cache.miss).toMatchObject({ at_token: known, reason: "new" });
      }
      // The answer's tokens are cells too: what its next rendering adds is the end marker and what follows.
      messages.push({ role: "assistant", content: answer.choices[0].message.content });
      known = cache.prompt_tokens + scriptOf(answer.choices[0].message.content).length;
    }
  });

  test("an edit at another place is told apart from a plain request, and the reason is said", async () => {
    const messages = [{ role: "user", content: "a question of its own" }, { role: "assistant", content: "yes" }, { role: "user", content: "more" }];
    await world.post("/v1/chat/completions", { messages, directives: [] });
    const edited = ((await world.post("/v1/chat/completions", { messages, directives: [{ op: "drop", target: { messages: [0] }, at: { message: 1 } }] })).json as { cache: Report }).cache;
    expect(edited.miss).toMatchObject({ reason: "event_differs", at_token: (await ownersOf(messages)).indexOf(2) });
    const plain = ((await world.post("/v1/chat/completions", { messages, cache: { report: true } })).json as { cache: Report }).cache;
    expect(plain.computed_tokens).toBeLessThanOrEqual(1);
  });
});

describe("a plan", () => {
  const fields = { directives: [{ op: "drop", target: { messages: [1] }, at: { message: 3 } }, { op: "reposition", at: { message: 3 } }] };
  const messages = [{ role: "system", content: "A plan." }, ...MESSAGES.slice(1)];

  test("predicts the report exactly and computes nothing", async () => {
    const before = world.runtime.steps;
    const pages = (await world.get("/v1/cache")).json;
    const plan = (await world.post("/v1/directives/plan", body({ ...fields, messages }))).json as Report & { cache: Report; cost: Record<string, number> };
    expect(world.runtime.steps).toBe(before);
    expect((await world.get("/v1/cache")).json).toEqual(pages);
    const report = await reportOf({ ...fields, messages });
    expect(plan).toMatchObject({ ...report });
    expect(plan.cache).toEqual(report);
    expect(plan.cost).toMatchObject({ computed_tokens: report.computed_tokens, text_edit_tokens: expect.any(Number) as number });
  });

  test("predicts a warm one as well, and that of a completion", async () => {
    await reportOf({ ...fields, messages });
    const plan = (await world.post("/v1/directives/plan", body({ ...fields, messages }))).json as Report;
    expect(plan).toMatchObject({ ...(await reportOf({ ...fields, messages })) });
    const completion = { prompt: "a prompt of a plan", directives: [{ op: "drop", target: { tokens: [2, 5] } }] };
    const planned = (await world.post("/v1/directives/plan", completion)).json as { cache: Report };
    expect(planned.cache).toEqual(((await world.post("/v1/completions", completion)).json as { cache: Report }).cache);
  });
});
