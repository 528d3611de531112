import { expect, test } from "vitest";
import { CHARACTER_OF_BYTE } from "../src/tokenizer/vocabulary.ts";
import { preTokenizer, wordEnds } from "../src/tokenizer/pre-tokenizers.ts";
import { byteAlphabet, seededPick } from "./golden/small-vocabulary.ts";

/** The published regular expressions; `(?i:…)` is spelled out, since Node 20 does not know it. */
const EXPRESSIONS: Readonly<Record<string, RegExp[]>> = {
  "gpt-2": [/'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu],
  smollm: [/\p{N}/gu, /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu],
  "llama-bpe": [
    /'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
  ],
  qwen2: [
    /'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
  ],
  default: [
    /[\p{P}$+<=>^~|]+/gu,
    /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu,
    /\p{N}+/gu,
    /[0-9][0-9][0-9]/g,
  ],
};

/** Cuts at every match and keeps what lies between, stage by stage. */
function wordsByExpression(text: string, stages: readonly RegExp[]): string[] {
  let words = text === "" ? [] : [text];
  for (const stage of stages) {
    words = words.flatMap((word) => {
      const parts: string[] = [];
      let from = 0;
      for (const match of word.matchAll(stage)) {
        if (match.index > from) parts.push(word.slice(from, match.index));
        parts.push(match[0]);
        from = match.index + match[0].length;
      }
      if (from < word.length) parts.push(word.slice(from));
      return parts;
    });
  }
  return words;
}

function wordsByEnds(text: string, pre: string): string[] {
  let from = 0;
  return wordEnds(text, preTokenizer(pre)).map((end) => {
    const word = text.slice(from, end);
    from = end;
    return word;
  });
}

for (const [pre, stages] of Object.entries(EXPRESSIONS)) {
  test(`words of "${pre}" are those of its regular expressions`, () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    console.log(`seed ${seed}`);
    const pick = seededPick(seed);
    // U+0085 and U+FEFF are left out: JavaScript's \s differs from Unicode's White_Space in them.
    const units = [
      "a", "B", "é", "漢", "𐐀", "0", "7", "½", "𝟘", "٣", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "'", "'s", "'S", "'re", "'LL", "'x", "’", ".", "...", "-",
      "$", "+", "=", "|", "`", "😀", "\u0301", "\u200d", "_", "\0", "\ud800", "#", "123", "12345", "(", "«", "l", "ve",
    ];
    for (let round = 0; round < 4000; round += 1) {
      const text = Array.from({ length: pick(9) }, () => units[pick(units.length)]).join("");
      expect(wordsByEnds(text, pre)).toEqual(wordsByExpression(text, stages));
    }
  });
}

test("white space is Unicode's, not JavaScript's", () => {
  expect(wordsByEnds("a\u0085\u0085b", "gpt-2")).toEqual(["a", "\u0085", "\u0085", "b"]);
  expect(wordsByEnds("a\ufeff\ufeffb", "gpt-2")).toEqual(["a", "\ufeff\ufeff", "b"]);
});

test("classes of characters do not depend on the Unicode version of Node", () => {
  // Letters and digits that came with Unicode 16 and 17: newer than the models' tables, so they are neither.
  for (const late of ["\u1c89", "\ua7cb", "\u{105c0}", "\u{10d40}", "\u{16d70}"]) {
    expect(wordsByEnds(`${late}${late}`, "qwen2")).toEqual([`${late}${late}`]);
    expect(wordsByEnds(`.${late}`, "gpt-2")).toEqual([`.${late}`]);
  }
});

test("the alphabet of bytes is GPT-2's", () => {
  expect(CHARACTER_OF_BYTE).toEqual(byteAlphabet());
});
