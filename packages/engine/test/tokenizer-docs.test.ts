import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ChatTemplate, ENGINE_ERROR_CODES, PRE_TOKENIZER_NAMES, Tokenizer, Utf8Stream } from "../src/index.ts";
import { smallVocabulary } from "./golden/small-vocabulary.ts";

const page = readFileSync(new URL("../../../docs/tokenizer-and-templates.md", import.meta.url), "utf8");

test("docs/tokenizer-and-templates.md names every pre-tokenizer, and no other", () => {
  const listed = /^\* Pre-tokenizers: ([^]*?)\. /m.exec(page)?.[1] ?? "";
  expect([...listed.matchAll(/`([^`]+)`/g)].map(([, name]) => name)).toEqual([...PRE_TOKENIZER_NAMES]);
});

test("docs/tokenizer-and-templates.md has the error codes with their kinds", () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\w+) \| .+ \|$/gm)].map(([, code, kind]) => [code, kind]);
  const own = Object.entries(ENGINE_ERROR_CODES).filter(([code]) => /^(tokenizer|pre_tokenizer|token|template|messages|content)_/.test(code));
  expect(rows).toEqual(own);
});

/** Runs the code of an example with these names given. */
function run(code: string, names: string[], given: unknown[]): Promise<unknown> {
  const AsyncFunction = (async () => undefined).constructor as new (...parameters: string[]) => (...values: unknown[]) => Promise<unknown>;
  return new AsyncFunction(...names, code)(...given);
}

// The examples' code, without imports and without the model file, on a small vocabulary.
const examples = [...page.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => (code as string).replace(/^import .*\n/gm, ""));

test("the examples of docs/tokenizer-and-templates.md run and give what they say", async () => {
  const data = {
    ...smallVocabulary([]),
    chatTemplate: "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
  };
  const [tokens, chats] = examples as [string, string];
  const readModel = async () => ({ tokenizer: data });
  expect(await run(`${tokens}\nreturn shown;`, ["Tokenizer", "Utf8Stream", "readModel", "path"], [Tokenizer, Utf8Stream, readModel, "model.gguf"])).toBe("naïve 😀");
  const tokenizer = new Tokenizer(data);
  const seen = (await run(`${chats}\nreturn { tokens, header, warnings, content: chat.part(0, "content"), text: chat.text(0, "ell", 1) };`, ["ChatTemplate", "data", "tokenizer"], [
    ChatTemplate, data, tokenizer,
  ])) as { tokens: Int32Array; header: number; content: [number, number][]; text: [number, number][]; warnings: string[] };
  const texts = (ranges: [number, number][]) => ranges.map(([start, end]) => tokenizer.decode(seen.tokens.subarray(start, end)));
  expect([texts(seen.content), texts(seen.text), texts([[seen.header, seen.tokens.length]])]).toEqual([["Hello"], ["ell"], ["<|im_start|>assistant\n"]]);
  expect(seen.warnings).toEqual([]);
});
