import { describe, expect, test } from "vitest";
import { ChatTemplate, EngineError, Slices, Tokenizer } from "../src/index.ts";
import { endOfBlock } from "../src/tokenizer/blocks.ts";
import { preTokenizer, PRE_TOKENIZER_NAMES, wordEnds } from "../src/tokenizer/pre-tokenizers.ts";
import { runAtOnce } from "../src/tokenizer/slices.ts";
import { randomMerges, seededPick, smallVocabulary } from "./golden/small-vocabulary.ts";

const UNITS = [
  "a", "B", "é", "漢", "𐐀", "0", "7", "½", "𝟘", " ", "  ", "\n", "\r\n", "\t", "\u3000", "'", "'s", "'S", "'re", "'LL", ".", "...", "-", "$", "=", "|", "😀", "\u0301", "_", "\ud800",
  "123", "12345", "(", "l", "ve", "<|im_end|>", "<|im_", "<tool_call>", "<",
];

function seeded(): (below: number) => number {
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.log(`seed ${seed}`);
  return seededPick(seed);
}

const randomText = (pick: (below: number) => number, length: number) => Array.from({ length }, () => UNITS[pick(UNITS.length)]).join("");

function blocksOf(text: string, unitsMin: number): number[] {
  const ends: number[] = [];
  for (let from = 0; from < text.length; from = ends.at(-1) ?? 0) ends.push(runAtOnce(endOfBlock(text, from, text.length, unitsMin)));
  return ends;
}

test("blocks cut into words alone give the words of the whole, for every pre-tokenizer", () => {
  const pick = seeded();
  let cuts = 0;
  for (const name of PRE_TOKENIZER_NAMES) {
    const pre = preTokenizer(name);
    for (let round = 0; round < 150; round += 1) {
      const text = randomText(pick, 40);
      const blocks = blocksOf(text, 1 + pick(6));
      cuts += blocks.length - 1;
      const words = blocks.flatMap((end, index) => {
        const start = blocks[index - 1] ?? 0;
        return wordEnds(text.slice(start, end), pre).map((word) => start + word);
      });
      expect(words, `${name}: ${JSON.stringify(text)}`).toEqual(wordEnds(text, pre));
    }
  }
  expect(cuts).toBeGreaterThan(1000);
});

describe("a text that is tokenised in slices", () => {
  const pick = seeded();
  const tokenizer = new Tokenizer(smallVocabulary(randomMerges(120, ["a", "l", "v", "e", "0", "7", "."], pick)));

  test("has the ids and places that it has at once", async () => {
    const texts = [randomText(pick, 60_000), "a".repeat(70_000), "=.".repeat(40_000), "<|im_end|>".repeat(9_000), "1234567890".repeat(7_000), ""];
    for (const text of texts) {
      for (const special of [true, false]) {
        const [sliced, whole] = [await tokenizer.encodeInSlices(text, { special }), tokenizer.encodeWithOffsets(text, { special })];
        for (const name of ["ids", "starts", "ends"] as const) expect(Buffer.from(sliced[name].buffer).equals(Buffer.from(whole[name].buffer))).toBe(true);
      }
    }
  });

  test("lets others have the event loop, also within one long word, and ends when it is told to", async () => {
    for (const text of [randomText(pick, 200_000).repeat(8), "a".repeat(1_500_000)]) {
      let turns = 0;
      let running = true;
      const turn = () => {
        turns += 1;
        if (running) setImmediate(turn);
      };
      setImmediate(turn);
      await tokenizer.encodeInSlices(text, { special: false });
      running = false;
      expect(turns).toBeGreaterThan(10);
      const ended = new AbortController();
      const answer = tokenizer.encodeInSlices(text, { special: false }, new Slices(ended.signal));
      ended.abort(new Error("nobody waits"));
      await expect(answer).rejects.toThrow("nobody waits");
    }
  });

  test("never has fewer tokens than its bytes allow", () => {
    for (let round = 0; round < 300; round += 1) {
      const text = randomText(pick, pick(40));
      expect(tokenizer.encode(text, { special: true }).length).toBeGreaterThanOrEqual(tokenizer.fewestTokens(text));
    }
    expect(tokenizer.fewestTokens("<|endoftext|>".repeat(100))).toBe(100);
    // Without tokens for these bytes they are lost, and promise nothing.
    const data = smallVocabulary([]);
    const lossy = new Tokenizer({ ...data, tokens: data.tokens.map((text, id) => (id >= 0xe0 && id < 0x100 ? `(no ${text})` : text)) });
    const text = "漢".repeat(130);
    expect(lossy.encode(text, { special: false }).length).toBeGreaterThanOrEqual(lossy.fewestTokens(text));
    expect(lossy.fewestTokens(text)).toBeLessThan(new Tokenizer(data).fewestTokens(text));
  });
});

test("a chat is refused before it is tokenised when it cannot fit", async () => {
  const tokenizer = new Tokenizer(smallVocabulary([]));
  const template = new ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", tokenizer);
  const request = { messages: [{ role: "user", content: "a".repeat(1_000) }], addGenerationPrompt: false };
  expect((await template.renderInSlices(request, { tokensMax: 1_000 })).tokens).toEqual(template.render(request).tokens);
  const refused = await template.renderInSlices(request, { tokensMax: 50 }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(EngineError);
  expect(refused).toMatchObject({ kind: "invalid", code: "context_length_exceeded", param: "messages" });
});
