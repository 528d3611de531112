import { expect, test } from "vitest";
import { Random } from "../../directives/test/random-logs.ts";
import { TextAssembly, type TokenBytes } from "@palimpsest/engine";

const utf8 = new TextEncoder();

/** Tokens that are the given pieces: text, or raw bytes. */
function pieces(list: readonly (string | readonly number[])[]): TokenBytes {
  const bytes = list.map((piece) => (typeof piece === "string" ? utf8.encode(piece) : Uint8Array.from(piece)));
  return { bytes: (id) => bytes[id]! };
}

function assemble(list: readonly (string | readonly number[])[], stops: readonly string[]): { deltas: string[]; text: string; stopped: boolean } {
  const assembly = new TextAssembly(pieces(list), stops);
  const deltas: string[] = [];
  for (let id = 0; id < list.length && !assembly.stopped; id++) deltas.push(assembly.push(id).text);
  deltas.push(assembly.end());
  return { deltas, text: deltas.join(""), stopped: assembly.stopped };
}

test("a character that spans tokens is held until it is complete", () => {
  expect(assemble([[0xf0], [0x9f], [0x98], [0x80], "!"], []).deltas).toStrictEqual(["", "", "", "😀", "!", ""]);
  expect(assemble([[0xe4, 0xbd], [0xa0, 0xe5], [0xa5, 0xbd]], []).text).toBe("你好");
});

test("bytes that can never become a character are replaced at once, and an incomplete one at the end", () => {
  expect(assemble([[0xff], "a", [0x80], "b"], []).deltas).toStrictEqual(["\ufffd", "a", "\ufffd", "b", ""]);
  expect(assemble(["x", [0xf0, 0x9f]], []).deltas).toStrictEqual(["x", "", "\ufffd"]);
});

test("a stop string is seen across tokens, and nothing of it is given out", () => {
  expect(assemble(["DEF", "G", "HI", "J", "K"], ["DEFGHIJ"])).toStrictEqual({ deltas: ["", "", "", "", ""], text: "", stopped: true });
  expect(assemble(["The quick br", "own", " fox", " jumps"], ["own fox"])).toMatchObject({ text: "The quick br", stopped: true });
  expect(assemble(["abab", "abac"], ["abac"])).toMatchObject({ text: "abab", stopped: true });
  expect(assemble(["one two"], ["two", "ne t"])).toMatchObject({ text: "o", stopped: true });
});

test("the beginning of a stop string is held only as long as it may become one", () => {
  expect(assemble(["ab", "ax"], ["abac"]).deltas).toStrictEqual(["", "abax", ""]);
  expect(assemble(["x", "ab"], ["abac"])).toStrictEqual({ deltas: ["x", "", "ab"], text: "xab", stopped: false });
});

test("stop strings without a character, or with half of one, are refused", () => {
  expect(() => new TextAssembly(pieces([]), [""])).toThrow(/at least one character/);
  expect(() => new TextAssembly(pieces([]), ["ok", "\ud83d"])).toThrow(expect.objectContaining({ param: "stop[1]" }));
});

test("deltas concatenate to the same text for every grouping of the same bytes, and none ends in half a surrogate pair", () => {
  const alphabet = ["a", "b", "ab", "😀", "你", "é", "\n", "👩‍🚀"];
  for (let seed = 1; seed <= 2000; seed++) {
    const random = new Random(seed);
    const text = Array.from({ length: random.int(0, 20) }, () => random.pick(alphabet)).join("");
    const bytes = [...utf8.encode(text)];
    if (random.chance(0.3)) bytes.splice(random.int(0, bytes.length), 0, random.pick([0xff, 0x80, 0xf0, 0xc3]));
    const stops = Array.from({ length: random.int(0, 3) }, () => Array.from({ length: random.int(1, 3) }, () => random.pick(alphabet)).join(""));
    const whole = assemble([bytes], stops);
    for (let cut = 0; cut < 4; cut++) {
      const tokens: number[][] = [];
      for (let at = 0; at < bytes.length; ) {
        const length = cut === 0 ? 1 : random.int(1, 5);
        tokens.push(bytes.slice(at, at + length));
        at += length;
      }
      const { deltas, text: joined, stopped } = assemble(tokens, stops);
      expect(joined, `seed ${seed}`).toBe(whole.text);
      expect(stopped, `seed ${seed}`).toBe(whole.stopped);
      for (const delta of deltas) expect(delta, `seed ${seed}`).not.toMatch(/\p{Surrogate}/u);
    }
    for (const stop of stops) expect(whole.text.includes(stop), `seed ${seed}`).toBe(false);
  }
});
