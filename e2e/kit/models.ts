import { readFileSync } from "node:fs";
import { Tokenizer } from "@palimpsest/engine";
import { readModel } from "@palimpsest/kernels-cuda";

/** The tokens of a text of this repository, as a model's own tokenizer has them: logs of words that belong together. */
export async function proseTokens(path: string): Promise<Int32Array> {
  const { tokenizer } = await readModel(path);
  const text = readFileSync(new URL("../../ARCHITECTURE.md", import.meta.url), "utf8");
  return Int32Array.from(new Tokenizer(tokenizer).encode(text, { special: false }));
}
