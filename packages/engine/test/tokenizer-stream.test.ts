import { array, assert, nat, oneof, property, string, uint8Array } from "fast-check";
import { expect, test } from "vitest";
import { Tokenizer, Utf8Stream } from "../src/index.ts";
import { smallVocabulary } from "./golden/small-vocabulary.ts";

const decodeWhole = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

test("pieces concatenate to the whole for every way of cutting it, and none ends in half a surrogate pair", () => {
  const bytes = oneof(
    uint8Array({ maxLength: 24 }),
    string({ unit: "binary", maxLength: 12 }).map((text) => new Uint8Array(Buffer.from(text))),
    string({ unit: "grapheme", maxLength: 8 }).map((text) => new Uint8Array(Buffer.from(text))),
  );
  assert(
    property(bytes, array(nat({ max: 5 }), { maxLength: 30 }), (whole, cuts) => {
      const stream = new Utf8Stream();
      const pieces: string[] = [];
      let at = 0;
      for (const cut of cuts) {
        pieces.push(stream.push(whole.subarray(at, at + cut)));
        at = Math.min(at + cut, whole.length);
      }
      pieces.push(stream.push(whole.subarray(at)), stream.end());
      expect(pieces.join("")).toBe(decodeWhole(whole));
      for (const piece of pieces) expect(Buffer.from(piece).toString()).toBe(piece);
    }),
    { numRuns: 3000 },
  );
});

test("a character that spans tokens is held until it is complete", () => {
  const stream = new Utf8Stream();
  const push = (...bytes: number[]) => stream.push(Uint8Array.from(bytes));
  expect([push(0xf0), push(0x9f), push(0x98), push(0x80)]).toEqual(["", "", "", "😀"]);
  expect([push(0xe6, 0xbc), push(0xa2, 0x41)]).toEqual(["", "漢A"]);
});

test("bytes that can never become a character are replaced at once", () => {
  const stream = new Utf8Stream();
  const push = (...bytes: number[]) => stream.push(Uint8Array.from(bytes));
  expect(push(0xff)).toBe("\ufffd");
  expect(push(0x80)).toBe("\ufffd");
  expect([push(0xf0, 0x9f), push(0x41)]).toEqual(["", "\ufffdA"]);
  expect([push(0xed), push(0xa0)]).toEqual(["", "\ufffd\ufffd"]);
  expect(push(0x80)).toBe("\ufffd");
});

test("a tail that was cut off is flushed at the end", () => {
  const stream = new Utf8Stream();
  expect(stream.push(Uint8Array.of(0x61, 0xf0, 0x9f))).toBe("a");
  expect(stream.end()).toBe("\ufffd");
  expect(new Utf8Stream().end()).toBe("");
});

test("a byte order mark is text", () => {
  const stream = new Utf8Stream();
  expect(stream.push(Uint8Array.of(0xef, 0xbb, 0xbf, 0x41))).toBe("\ufeffA");
  const tokenizer = new Tokenizer(smallVocabulary([]));
  expect(tokenizer.decode(tokenizer.encode("\ufeffA", { special: false }))).toBe("\ufeffA");
});

test("token by token a stream gives the text that the tokens have", () => {
  const tokenizer = new Tokenizer(smallVocabulary([]));
  const text = "naïve 漢字 👨‍👩‍👧‍👦!";
  const stream = new Utf8Stream();
  let streamed = "";
  for (const id of tokenizer.encode(text, { special: false })) streamed += stream.push(tokenizer.tokenBytes(id));
  expect(streamed + stream.end()).toBe(text);
});
