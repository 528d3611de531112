import Anthropic from "@anthropic-ai/sdk";
import type { AddressInfo } from "node:net";
import { array, assert, constantFrom, integer, property } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ThinkingReader, type Told } from "../src/openai/thinking.ts";
import { REASONING_TEMPLATE, scriptOf } from "./scripted.ts";
import { openWorld, type World } from "./world.ts";

const MARKS = { open: "<think>", close: "</think>" };

function read(answer: string, lengths: readonly number[] = [Infinity], isOpened = false): Told {
  const reader = new ThinkingReader(MARKS, isOpened);
  const told: Told[] = [];
  for (let at = 0, turn = 0; at < answer.length; turn++) {
    const length = lengths[turn % lengths.length] as number;
    told.push(reader.push(answer.slice(at, at + length)));
    at += length;
  }
  told.push(reader.end());
  return { thinking: told.map(({ thinking }) => thinking).join(""), text: told.map(({ text }) => text).join("") };
}

describe("reasoning that an answer begins with", () => {
  test.each<[string, string, Told]>([
    ["is told apart, without the white space around it", "\n<think>\nLet me see.\nYes.\n</think>\n\nIt is so. ", { thinking: "Let me see.\nYes.", text: "It is so. " }],
    ["may be empty", "<think>\n\n</think>\n\nyes", { thinking: "", text: "yes" }],
    ["may be cut off", "<think>\nLet me s", { thinking: "Let me s", text: "" }],
    ["may be cut off inside its end mark", "<think>a</thi", { thinking: "a</thi", text: "" }],
    ["is only what stands at the beginning", "So <think>a</think>", { thinking: "", text: "So <think>a</think>" }],
    ["ends with its first end mark", "<think>a</think>b</think>", { thinking: "a", text: "b</think>" }],
    ["is none where the mark is another", " <thinking>a", { thinking: "", text: " <thinking>a" }],
    ["is none in an answer of white space", " \n", { thinking: "", text: " \n" }],
  ])("%s", (_what, answer, expected) => {
    expect(read(answer)).toEqual(expected);
    expect(read(answer, [1])).toEqual(expected);
  });

  test("needs no mark where the generation header has it", () => {
    expect(read("\nhm\n</think>\n\nyes", [1], true)).toEqual({ thinking: "hm", text: "yes" });
    expect(read("hm", [1], true)).toEqual({ thinking: "hm", text: "" });
  });

  test("is the same for every way of cutting the answer", () => {
    const pieces = array(constantFrom("<think>", "</think>", "<", "</", "think>", "a", " ", "\n", "é"), { maxLength: 9 }).map((list) => list.join(""));
    assert(
      property(pieces, array(integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 4 }), constantFrom(true, false), (answer, lengths, isOpened) => {
        expect(read(answer, lengths, isOpened)).toEqual(read(answer, undefined, isOpened));
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("Anthropic's thinking", () => {
  let world: World;
  let client: Anthropic;
  beforeAll(async () => {
    world = await openWorld({ chatTemplate: `${REASONING_TEMPLATE}{% if add_generation_prompt and enable_thinking is false %}{{ '<think></think>' }}{% endif %}` });
    await world.app.fastify.listen({ host: "127.0.0.1", port: 0 });
    client = new Anthropic({ apiKey: "any", baseURL: `http://127.0.0.1:${(world.app.fastify.server.address() as AddressInfo).port}`, maxRetries: 0 });
    world.runtime.script.answers.set(0n, scriptOf("<think>\nLet me see.\n</think>\n\nIt is so."));
  });
  afterAll(() => world.close());
  const body = { model: "scripted", max_tokens: 200, messages: [{ role: "user" as const, content: "well?" }] };

  test("comes as a block before the text, whole and streamed, and goes back", async () => {
    const thinking = { type: "adaptive" as const };
    const expected = [{ type: "thinking", thinking: "Let me see.", signature: "" }, { type: "text", text: "It is so." }];
    const whole = await client.messages.create({ ...body, thinking });
    expect(whole).toMatchObject({ content: expected, stop_reason: "end_turn" });
    const events: string[] = [];
    const stream = client.messages.stream({ ...body, thinking }).on("thinking", (delta) => events.push(delta));
    expect((await stream.finalMessage()).content).toMatchObject(expected);
    expect(events.join("")).toBe("Let me see.");
    const next = await client.messages.create({ ...body, thinking, messages: [...body.messages, { role: "assistant", content: whole.content }, { role: "user", content: "sure?" }] });
    expect(next.content).toMatchObject(expected);
  });

  test("is off unless it is asked for, and says that it has no budget of its own", async () => {
    const ids = async (more: object) => ((await world.post("/v1/messages", { ...body, ...more, return_token_ids: true })).json as { prompt_token_ids: number[]; warnings?: string[] });
    expect(world.service.tokenizer.decode((await ids({})).prompt_token_ids).endsWith("assistant\n<think></think>")).toBe(true);
    expect(world.service.tokenizer.decode((await ids({ thinking: { type: "disabled" } })).prompt_token_ids).endsWith("<think></think>")).toBe(true);
    const budgeted = await ids({ thinking: { type: "enabled", budget_tokens: 1_024 } });
    expect(world.service.tokenizer.decode(budgeted.prompt_token_ids).endsWith("assistant\n")).toBe(true);
    expect(budgeted.warnings).toEqual([expect.stringContaining("thinking.budget_tokens") as string]);
  });
});
