import { availableParallelism } from "node:os";
import { Tokenizer } from "@palimpsest/engine";
import { deviceInfo, openRuntime, readModel, type RuntimeOptions } from "@palimpsest/kernels-cuda";
import { expect, it } from "vitest";
import { compare, type Fidelity, logitsOf, transcript, WINDOW } from "../bench/fidelity.ts";
import { describeWithModel } from "./real-models.ts";

/**
 * Bounds of the fast levels against `reference` on bench/text/transcript.txt. `codes`: of q8_0 cells against f16 cells of the same level,
 * which holds the noise of both; they catch a regression. What the cells alone lose: `npm run bench -- fidelity`.
 */
const MODELS = [
  { name: "smollm2-135m", klMax: 0.004, top1Min: 0.96, codes: { klMax: 0.008, top1Min: 0.94 } },
  { name: "qwen2.5-coder-0.5b", klMax: 0.001, top1Min: 0.975, codes: { klMax: 0.03, top1Min: 0.92 } },
];
type Choice = Pick<RuntimeOptions, "kernels" | "cacheDtype">;
const THREADS = Math.min(2, availableParallelism());

/** How near the second level and cells are to the first, on the transcript. */
async function fidelity(path: string, ...[first, second]: [Choice, Choice]): Promise<Fidelity> {
  const { tokenizer } = await readModel(path);
  const tokens = new Tokenizer(tokenizer).encode(transcript(), { special: false });
  expect(tokens.length).toBeGreaterThanOrEqual(2_000);
  const open = (choice: Choice) => openRuntime(path, { pages: WINDOW / 16, threads: THREADS, ...choice });
  const [truth, tried] = [await open(first), await open(second)];
  const found = await compare(logitsOf(truth, tokens), logitsOf(tried, tokens), tokens.length, truth.info.vocabularySize);
  await Promise.all([truth.dispose(), tried.dispose()]);
  return found;
}

for (const { name, klMax, top1Min, codes } of MODELS) {
  describeWithModel(name, `Fast levels on ${name}`, (path) => {
    const fast = deviceInfo().levels.filter((level) => level !== "reference" && level !== "scalar");
    // The scalar level computes the same integers, an order of magnitude slower: kernel tests hold it to the others.
    it.each(fast)("%s is near the reference on the transcript", async (kernels) => {
      const { meanKl, top1 } = await fidelity(path, { kernels: "reference", cacheDtype: "f32" }, { kernels, cacheDtype: "f16" });
      console.log(`${name} ${kernels}: mean KL ${meanKl.toFixed(5)}, top-1 ${(top1 * 100).toFixed(2)} %`);
      expect(meanKl).toBeLessThanOrEqual(klMax);
      expect(top1).toBeGreaterThanOrEqual(top1Min);
    }, 900_000);

    it.each(fast)("%s loses little by cells of q8_0", async (kernels) => {
      const { meanKl, top1 } = await fidelity(path, { kernels, cacheDtype: "f16" }, { kernels, cacheDtype: "q8_0" });
      console.log(`${name} ${kernels}: q8_0 cells against f16, mean KL ${meanKl.toFixed(6)}, top-1 ${(top1 * 100).toFixed(2)} %`);
      expect(meanKl).toBeLessThanOrEqual(codes.klMax);
      expect(top1).toBeGreaterThanOrEqual(codes.top1Min);
    }, 900_000);
  });
}
