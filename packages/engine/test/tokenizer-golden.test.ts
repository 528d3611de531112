import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { Tokenizer } from "../src/index.ts";
import { describeWithModel } from "./golden/models.ts";

interface Golden {
  llamaCpp: string | { release: string };
  strings: string[];
  /** On every `every`-th string: ids with control tokens as text, and with control tokens where that differs (otherwise 0). */
  runs: { file: string; pre: string; every: number; plain: number[][]; special: (number[] | 0)[] }[];
}

const golden = JSON.parse(gunzipSync(readFileSync(new URL("golden/tokens.json.gz", import.meta.url))).toString()) as Golden;

test("the golden file has at least 2,000 different texts for each model with its own pre-tokenizer", () => {
  expect(new Set(golden.strings).size).toBeGreaterThanOrEqual(2000);
  for (const run of golden.runs.slice(0, 2)) expect(run.plain.length).toBe(golden.strings.length);
});

for (const run of golden.runs) {
  describeWithModel(run.file, `${run.file} with the pre-tokenizer "${run.pre}"`, (data) => {
    const texts = golden.strings.filter((_, index) => index % run.every === 0);

    test(`gives llama.cpp's ids for ${texts.length} texts`, () => {
      const tokenizer = new Tokenizer({ ...data(), pre: run.pre });
      const differing = texts.filter((text, index) => {
        const plain = run.plain[index] as number[];
        const special = run.special[index] || plain;
        return (
          tokenizer.encode(text, { special: false }).join() !== plain.join() || tokenizer.encode(text, { special: true }).join() !== special.join()
        );
      });
      expect(differing).toEqual([]);
    });

    test("gives back the text of every golden id whose bytes the vocabulary has", () => {
      const tokenizer = new Tokenizer({ ...data(), pre: run.pre });
      let lossless = 0;
      for (const [index, text] of texts.entries()) {
        const bytes = tokenizer.decodeBytes(run.plain[index] as number[]);
        if (bytes.length !== Buffer.byteLength(text)) continue;
        lossless += 1;
        expect(tokenizer.decode(run.plain[index] as number[])).toBe(text);
      }
      expect(lossless).toBeGreaterThan(texts.length * 0.85);
    });
  });
}
