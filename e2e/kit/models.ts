import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { Tokenizer } from "@palimpsest/engine";
import { readModel } from "@palimpsest/kernels-cuda";

export const SMOLLM2 = { file: "SmolLM2-135M-Instruct.Q4_1.gguf", name: "smollm2-135m" };
export const QWEN = { file: "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", name: "qwen2.5-coder-0.5b" };

/**
 * Path of a model in the cache folder, null where it is not there: tests that need it are then skipped by name. With `CI=true` its
 * absence is an error, so that a pipeline is never green because it tested nothing.
 */
export function modelPath({ file, name }: { file: string; name: string }): string | null {
  const path = join(process.env["PALIMPSEST_HOME"] ?? join(homedir(), ".cache", "palimpsest"), "models", file);
  if (existsSync(path)) return path;
  const reason = `${file} is not in the cache folder; fetch it with: palimpsest pull ${name}`;
  if (process.env["CI"] === "true") throw new Error(reason);
  console.warn(`skipped: ${reason}`);
  return null;
}

/** The tokens of a text of this repository, as a model's own tokenizer has them: logs of words that belong together. */
export async function proseTokens(path: string): Promise<Int32Array> {
  const { tokenizer } = await readModel(path);
  const text = readFileSync(new URL("../../ARCHITECTURE.md", import.meta.url), "utf8");
  return Int32Array.from(new Tokenizer(tokenizer).encode(text, { special: false }));
}
