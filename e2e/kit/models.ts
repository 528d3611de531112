import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";

export const SMOLLM2 = { file: "SmolLM2-135M-Instruct.Q4_1.gguf", name: "smollm2-135m" };
export const QWEN = { file: "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", name: "qwen2.5-coder-0.5b" };

/** Tests on a model of the cache folder. Where it is not there they are skipped by name, and fail with `CI=true`: a skip is no pass. */
export function describeWithModel({ file, name }: { file: string; name: string }, title: string, body: (path: string) => void): void {
  const path = join(process.env["PALIMPSEST_HOME"] ?? join(homedir(), ".cache", "palimpsest"), "models", file);
  if (existsSync(path)) {
    describe(title, () => body(path));
    return;
  }
  const reason = `${file} is not in the cache folder; fetch it with: palimpsest pull ${name}`;
  if (process.env["CI"] === "true") {
    test(title, () => {
      throw new Error(reason);
    });
  } else {
    console.warn(`skipped: ${title}: ${reason}`);
    describe.runIf(false)(title, () => test(`needs ${file}`, () => undefined));
  }
}
