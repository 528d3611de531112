import { existsSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { type TokenizerData, readModel } from "@palimpsest/kernels-cuda";
import { beforeAll, describe, test } from "vitest";

export const SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
export const QWEN = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf";

const CATALOG_NAMES: Readonly<Record<string, string>> = { [SMOLLM2]: "smollm2-135m", [QWEN]: "qwen2.5-coder-0.5b" };

/**
 * Tests that need a real model file in the cache folder. Where it is not there they are skipped by name, and with `CI=true` they fail:
 * a pipeline must never be green because it tested nothing.
 */
export function describeWithModel(file: string, title: string, body: (data: () => TokenizerData) => void): void {
  const location = path.join(process.env["PALIMPSEST_HOME"] ?? path.join(homedir(), ".cache", "palimpsest"), "models", file);
  if (existsSync(location)) {
    describe(title, () => {
      let data: TokenizerData;
      beforeAll(async () => {
        data = (await readModel(location)).tokenizer;
      });
      body(() => data);
    });
    return;
  }
  const reason = `${file} is not in the cache folder; fetch it with: palimpsest pull ${CATALOG_NAMES[file]}`;
  if (process.env["CI"] === "true") {
    test(title, () => {
      throw new Error(reason);
    });
  } else {
    console.warn(`skipped: ${title}: ${reason}`);
    describe.runIf(false)(title, () => test(`needs ${file}`, () => undefined));
  }
}
