import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { byteTokenizerData, REASONING_TEMPLATE, scriptOf } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

/** `cache.scratch`: reasoning between the model's thinking marks is hidden from later turns, and the client says no more than that. */
interface Answer {
  choices: { message: { content: string } }[];
  usage: { prompt_tokens_details: object };
  cache: {
    prompt_tokens: number;
    visible_tokens: number;
    computed_tokens: number;
    skipped_tokens: number;
    scratched_tokens?: number;
    recovered_tokens: number;
    directives: { op: string; source: string; status: string; at_token: number; ranges: [number, number][]; hidden: number }[];
  };
}

const SCRATCH = { cache: { scratch: "thinking" } };
const QUESTION = { role: "user", content: "What is 6 by 7?" };

async function ask(world: World, messages: object[], more: object = SCRATCH): Promise<Answer> {
  const answer = await world.post("/v1/chat/completions", { messages, ...more });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json as Answer;
}

describe("an answer with reasoning", () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld({ pageSize: 1, pages: 400 });
    world.runtime.script.answers.set(0n, scriptOf("<think>six sevens</think>\n42"));
  });
  afterEach(() => world.close());

  test("is shown whole, and later turns see the answer without the thought, with all else from the cache", async () => {
    const first = await ask(world, [QUESTION]);
    expect(first.cache).toMatchObject({ scratched_tokens: "six sevens".length, directives: [] });
    expect(first.usage.prompt_tokens_details).toHaveProperty("repos_tokens", 0);
    const [{ message }] = first.choices as [Answer["choices"][0]];
    expect(message.content).toBe("<think>six sevens</think>\n42");
    const messages = [QUESTION, { role: "assistant", content: message.content }, { role: "user", content: "And by 8?" }];
    const second = await ask(world, messages);
    expect(second.cache.directives).toMatchObject([{ op: "scratch", source: "scratch", status: "applied", hidden: "six sevens".length }]);
    const [[start, end]] = second.cache.directives[0]!.ranges as [[number, number]];
    const { tokens } = (await world.post("/tokenize", { messages })).json as { tokens: number[] };
    expect(world.service.tokenizer.decode(tokens.slice(start, end))).toBe("six sevens");
    expect(second.cache.visible_tokens).toBe(tokens.length - (end - start));
    // The prompt and all tokens of the answer were there; only what follows is computed.
    expect(second.cache.computed_tokens).toBe(tokens.length - first.cache.prompt_tokens - message.content.length);
    const third = await ask(world, [...messages, { role: "assistant", content: "48" }, { role: "user", content: "Thanks." }]);
    expect(third.cache.directives).toEqual(second.cache.directives);
  });

  test("gives the cells of the thought up first", async () => {
    const { choices, cache } = await ask(world, [QUESTION]);
    const messages = [QUESTION, { role: "assistant", content: choices[0]!.message.content }, { role: "user", content: "And by 8?" }];
    const { free } = world.service.engine.state().pages;
    world.service.engine.evictUntilFree(free + "six sevens".length);
    const plan = (body: object) => world.post("/v1/directives/plan", { messages, max_tokens: 1, ...body });
    expect((await plan({})).json).toMatchObject({ recovered_tokens: "six sevens".length });
    expect((await plan(SCRATCH)).json).toMatchObject({ recovered_tokens: 0, computed_tokens: messages.reduce((sum, { role, content }) => sum + role.length + content.length + 4, "assistant".length + 2) - cache.prompt_tokens - choices[0]!.message.content.length });
  });

  test("that is cut off while it thinks hides nothing, nor does one without marks", async () => {
    for (const [answer, more] of [["<think>six sevens</think>\n42", { max_tokens: 12 }], ["six sevens", {}], ["see <think>not first</think>", {}], ["<think></think>42", {}]] as const) {
      world.runtime.script.answers.set(0n, scriptOf(answer));
      expect((await ask(world, [QUESTION], { ...SCRATCH, ...more })).cache).toMatchObject({ scratched_tokens: 0 });
    }
    expect(await ask(world, [QUESTION], {})).not.toHaveProperty("cache");
  });

  test("in a stream says so in the last chunk", async () => {
    const chunks = await world.stream("/v1/chat/completions", { messages: [QUESTION], ...SCRATCH });
    expect(chunks.at(-1)).toMatchObject({ choices: [], cache: { scratched_tokens: "six sevens".length } });
  });
});

describe("a template", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld({ chatTemplate: REASONING_TEMPLATE });
  });
  afterAll(() => world.close());

  test("that leaves the reasoning of earlier turns out shows it here, so that the text is the same from turn to turn", async () => {
    const messages = [QUESTION, { role: "assistant", content: "42", reasoning_content: "six sevens" }, { role: "user", content: "And by 8?" }];
    const { cache } = await ask(world, messages);
    expect(cache.directives).toMatchObject([{ op: "scratch", status: "applied", hidden: "six sevens".length }]);
    expect((await ask(world, messages, { cache: { report: true } })).cache.prompt_tokens).toBe(cache.prompt_tokens - "<think>six sevens</think>".length);
  });

  test("whose generation header begins the reasoning needs no mark in the answer", async () => {
    const opened = await openWorld({ chatTemplate: REASONING_TEMPLATE.replace(/assistant\n' \}\}\{% endif %\}$/, "assistant\n<think>' }}{% endif %}") });
    opened.runtime.script.answers.set(0n, scriptOf("six sevens</think>42"));
    expect((await ask(opened, [QUESTION])).cache).toMatchObject({ scratched_tokens: "six sevens".length });
    await opened.close();
  });

  test("is asked for its marks: others than the usual are found in an answer too", async () => {
    const other = await openWorld({ chatTemplate: REASONING_TEMPLATE.replaceAll("<think>", "[MUSE]").replaceAll("</think>", "[/MUSE]") });
    other.runtime.script.answers.set(0n, scriptOf("[MUSE]six sevens[/MUSE]42"));
    expect((await ask(other, [QUESTION])).cache).toMatchObject({ scratched_tokens: "six sevens".length });
    await other.close();
  });
});

describe("the option", () => {
  test("is refused where there are no turns, and with a value that nobody knows", async () => {
    const world = await openWorld();
    expect(byteTokenizerData().chatTemplate).not.toBeNull();
    expect(await world.post("/v1/completions", { prompt: "abc", ...SCRATCH })).toMatchObject({ status: 400, json: { error: { param: "cache.scratch" } } });
    expect(await world.post("/v1/chat/completions", { messages: [QUESTION], cache: { scratch: "tools" } })).toMatchObject({ status: 400, json: { error: { param: "cache.scratch" } } });
    await world.close();
  });
});
