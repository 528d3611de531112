import { describe, expect, test } from "vitest";
import { type EngineError, Tokenizer } from "../src/index.ts";
import { WORD_CACHE_LIMITS, WordCache } from "../src/tokenizer/word-cache.ts";
import { byteAlphabet, randomMerges, seededPick, smallVocabulary } from "./golden/small-vocabulary.ts";

const alphabet = byteAlphabet();
const letters = "abcdehlort .-1".split("").map((character) => alphabet[character.charCodeAt(0)] as string);

/** The text with each lone surrogate replaced by U+FFFD. */
const wellFormed = (text: string) => Buffer.from(text).toString();

/** What the making of a tokenizer from such a file throws. */
function refusal(overrides: Parameters<typeof smallVocabulary>[1]): EngineError {
  try {
    return expect.unreachable(`made ${new Tokenizer(smallVocabulary([], overrides)).size}`);
  } catch (error) {
    return error as EngineError;
  }
}

/** Merging by its definition: again and again the lowest rank, leftmost, over all pairs. */
function mergeByDefinition(text: string, merges: readonly string[]): string[] {
  const rank = new Map(merges.toReversed().map((merge, index) => [merge, merges.length - 1 - index]));
  const symbols = [...Buffer.from(text)].map((byte) => alphabet[byte] as string);
  for (;;) {
    let best = -1;
    let lowest = Number.POSITIVE_INFINITY;
    for (let at = 0; at + 1 < symbols.length; at += 1) {
      const found = rank.get(`${symbols[at]} ${symbols[at + 1]}`);
      if (found !== undefined && found < lowest) [best, lowest] = [at, found];
    }
    if (best < 0) return symbols;
    symbols.splice(best, 2, `${symbols[best]}${symbols[best + 1]}`);
  }
}

describe("merging", () => {
  test("does what its definition says, for short words and for long ones", () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    console.log(`seed ${seed}`);
    const pick = seededPick(seed);
    for (let round = 0; round < 40; round += 1) {
      const merges = randomMerges(60, letters.slice(0, 9), pick);
      const data = smallVocabulary(merges);
      const tokenizer = new Tokenizer(data);
      for (const length of [1, 2, 7, 39, 40, 41, 200]) {
        const word = Array.from({ length }, () => "abcdehlor".charAt(pick(9))).join("");
        const expected = mergeByDefinition(word, merges);
        const ids = tokenizer.encode(word, { special: false });
        expect([...ids].map((id) => data.tokens[id])).toEqual(expected);
      }
    }
  });

  test("takes of two equal merges the first", () => {
    const data = smallVocabulary(["b c", "a b", "b c"]);
    expect(new Tokenizer(data).encode("abc", { special: false }).length).toBe(2);
  });

  test("goes through texts that the vocabulary lacks, and falls back to their characters", () => {
    const data = smallVocabulary(["a b", "ab c"]);
    const without = data.tokens.map((text) => (text === "ab" ? "(none)" : text));
    const tokenizer = new Tokenizer({ ...data, tokens: without });
    const texts = (text: string) => [...tokenizer.encode(text, { special: false })].map((id) => without[id]);
    expect(texts("abc")).toEqual(["abc"]);
    expect(texts("abd")).toEqual(["a", "b", "d"]);
  });

  test("gives no token for a byte that the vocabulary has none for", () => {
    const data = smallVocabulary([]);
    const tokens = data.tokens.map((text) => (text === alphabet[0xf1] ? "(none)" : text));
    const tokenizer = new Tokenizer({ ...data, tokens });
    expect(tokenizer.encode("\u{40000}", { special: false }).length).toBe(3);
    expect(tokenizer.encodeWithOffsets("a\u{40000}b", { special: false }).starts).toEqual(Int32Array.of(0, 1, 1, 1, 3));
  });

  test("is not quadratic in a word of a megabyte", () => {
    const pick = seededPick(7);
    const merges = randomMerges(400, letters.slice(0, 9), pick);
    const tokenizer = new Tokenizer(smallVocabulary(merges));
    const seconds = (length: number) => {
      const word = Array.from({ length }, () => "abcdehlor".charAt(pick(9))).join("");
      const start = performance.now();
      expect(tokenizer.decode(tokenizer.encode(word, { special: false }))).toBe(word);
      return (performance.now() - start) / 1000;
    };
    seconds(1 << 16);
    expect(seconds(1 << 20)).toBeLessThan(20);
  });
});

describe("texts at the edge", () => {
  const tokenizer = new Tokenizer(smallVocabulary(["h e", "l l", "he ll", "hell o"]));
  const encode = (text: string) => [...tokenizer.encode(text, { special: false })];

  test("an empty text has no token, and BOS alone where the model wants one", () => {
    expect(encode("")).toEqual([]);
    const data = smallVocabulary([], { addBos: true });
    const withBos = new Tokenizer(data);
    expect([...withBos.encode("", { special: true, bos: true })]).toEqual([data.bos]);
    expect([...withBos.encode("", { special: true })]).toEqual([]);
    expect([...tokenizer.encode("", { special: true, bos: true })]).toEqual([]);
  });

  test("a lone surrogate is U+FFFD, wherever it stands", () => {
    for (const text of ["\ud83d", "\ude00", "a\ud83db", "\ud83d\ud83d\ude00", "hello\ud83d"]) {
      expect(encode(text)).toEqual(encode(wellFormed(text)));
      expect(tokenizer.decode(encode(text))).toBe(wellFormed(text));
    }
  });

  test("NUL is a byte like others", () => {
    expect(tokenizer.decode(encode("a\0b\0\0hello"))).toBe("a\0b\0\0hello");
    expect(encode("\0").length).toBe(1);
  });
});

describe("control tokens", () => {
  const data = smallVocabulary([]);
  const tokenizer = new Tokenizer(data);
  const id = (text: string) => data.tokens.indexOf(text);

  test("become control tokens with special: true, and are text with special: false", () => {
    const text = "a<|im_start|>b<|im_end|>";
    expect([...tokenizer.encode(text, { special: true })]).toEqual([id("a"), id("<|im_start|>"), id("b"), id("<|im_end|>")]);
    const plain = tokenizer.encode(text, { special: false });
    expect([...plain].some((token) => tokenizer.isControl(token))).toBe(false);
    expect(tokenizer.decode(plain)).toBe(text);
  });

  test("user-defined tokens are found either way", () => {
    for (const special of [true, false]) expect([...tokenizer.encode("<tool_call>", { special })]).toEqual([id("<tool_call>")]);
  });

  test("a filter decides for each place", () => {
    const text = "<|im_end|><|im_end|>";
    const ids = [...tokenizer.encode(text, { special: ({ start }) => start > 0 })];
    expect(ids.filter((token) => token === id("<|im_end|>")).length).toBe(1);
    expect(ids.at(-1)).toBe(id("<|im_end|>"));
  });

  test("of two that overlap the longer wins, wherever it begins", () => {
    const tokens = [...data.tokens, "ab<x>", "<x>cdef"];
    const types = Int32Array.from([...data.tokenTypes, 3, 3]);
    const overlapping = new Tokenizer({ ...data, tokens, tokenTypes: types });
    expect([...overlapping.encode("ab<x>cdef", { special: true })]).toEqual([id("a"), id("b"), tokens.length - 1]);
    expect([...overlapping.encode("ab<x>cde", { special: true })].at(0)).toBe(tokens.length - 2);
  });

  test("many near misses do not take long", () => {
    const start = performance.now();
    tokenizer.encode("<|im_star".repeat(100_000), { special: true });
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  test("a token with the text of a turn's end controls, even where the file says that it is normal", () => {
    const tokens = [...data.tokens, "</s>"];
    const file = { ...data, tokens, tokenTypes: Int32Array.from([...data.tokenTypes, 1]) };
    const corrected = new Tokenizer(file);
    expect([...corrected.encode("</s>", { special: true })]).toEqual([tokens.length - 1]);
    expect(corrected.endTokens).toEqual([id("<|im_end|>"), id("<|endoftext|>"), tokens.length - 1]);
    expect(file.tokenTypes.at(-1)).toBe(1);
  });
});

describe("offsets", () => {
  test("begin at 0, rise, and name the character that holds a token's first byte", () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    console.log(`seed ${seed}`);
    const pick = seededPick(seed);
    const tokenizer = new Tokenizer(smallVocabulary(randomMerges(80, letters, pick)));
    const pieces = ["hello", " ", "é", "漢字", "😀", "<|im_end|>", "12", "\n\n", "\ud83d", "d't", "👨‍👩‍👧"];
    for (let round = 0; round < 300; round += 1) {
      const text = Array.from({ length: pick(12) }, () => pieces[pick(pieces.length)]).join("");
      const { ids, starts } = tokenizer.encodeWithOffsets(text, { special: pick(2) === 0 });
      let byte = 0;
      for (const [index, id] of ids.entries()) {
        const unit = starts[index] as number;
        // The character at `unit` is the one that holds byte number `byte` of the text.
        const before = Buffer.byteLength(wellFormed(text.slice(0, unit)));
        const character = wellFormed(String.fromCodePoint(text.codePointAt(unit) as number));
        expect(before).toBeLessThanOrEqual(byte);
        expect(byte).toBeLessThan(before + Buffer.byteLength(character));
        byte += tokenizer.tokenBytes(id).length;
      }
      expect(byte).toBe(Buffer.byteLength(wellFormed(text)));
    }
  });
});

describe("decoding", () => {
  const data = smallVocabulary([]);
  const tokenizer = new Tokenizer(data);

  test("leaves control tokens out when asked to", () => {
    const ids = tokenizer.encode("a<|im_end|>b<tool_call>", { special: true });
    expect(tokenizer.decode(ids)).toBe("a<|im_end|>b<tool_call>");
    expect(tokenizer.decode(ids, { special: false })).toBe("ab<tool_call>");
  });

  test("gives no text for ids that the vocabulary does not use, since a model may be wider", () => {
    expect(tokenizer.decode([data.tokens.length, data.tokens.length + 1000])).toBe("");
    const padded = new Tokenizer({ ...data, tokens: [...data.tokens, "[PAD1]"], tokenTypes: Int32Array.from([...data.tokenTypes, 5]) });
    expect(padded.decode([data.tokens.length])).toBe("");
  });

  test("refuses what is no id", () => {
    for (const id of [-1, 1.5, Number.NaN]) expect(() => tokenizer.tokenBytes(id)).toThrow(expect.objectContaining({ code: "token_invalid" }));
  });
});

describe("files that cannot be used", () => {
  test("an unknown pre-tokenizer is refused by name", () => {
    const error = refusal({ pre: "tekken" });
    expect([error.kind, error.code]).toEqual(["unsupported", "pre_tokenizer_unsupported"]);
    expect(error.message).toContain('"tekken"');
    expect(refusal({ pre: "" }).code).toBe("pre_tokenizer_unsupported");
  });

  test("another kind of tokenizer is refused by name", () => {
    const error = refusal({ model: "llama" });
    expect([error.kind, error.code]).toEqual(["unsupported", "tokenizer_unsupported"]);
    expect(error.message).toContain('"llama"');
  });

  test("damaged data is called damaged", () => {
    expect(refusal({ tokenTypes: new Int32Array(3) }).kind).toBe("data");
    expect(refusal({ tokens: [], tokenTypes: new Int32Array(0) }).kind).toBe("data");
    expect(refusal({ eos: 1_000_000 }).message).toContain("eos");
    expect(refusal({ addBos: true, bos: null }).kind).toBe("data");
    for (const merge of ["ab", "a ", ""]) expect(refusal({ merges: [merge] }).code).toBe("tokenizer_damaged");
  });
});

test("the cache of words holds a bounded number and forgets what was not asked for", () => {
  const cache = new WordCache();
  cache.set("kept", 1);
  cache.set("lost", 2);
  for (let index = 0; index < 3 * WORD_CACHE_LIMITS.WORDS_MAX; index += 1) {
    cache.set(`w${index}`, index);
    if (index % 1000 === 0) expect(cache.get("kept")).toBe(1);
    expect(cache.size).toBeLessThanOrEqual(2 * WORD_CACHE_LIMITS.WORDS_MAX);
  }
  expect(cache.get("lost")).toBe(undefined);
  cache.set("x".repeat(WORD_CACHE_LIMITS.WORD_UNITS_MAX + 1), 3);
  expect(cache.get("x".repeat(WORD_CACHE_LIMITS.WORD_UNITS_MAX + 1))).toBe(undefined);
});
