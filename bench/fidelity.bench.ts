// `npm run bench -- fidelity`: how near each level, and llama.cpp, is to f32 on dequantised weights, on bench/text/transcript.txt.
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer } from "@palimpsest/engine";
import { deviceInfo, openRuntime, readModel } from "@palimpsest/kernels-cuda";
import { resolveModel } from "@palimpsest/server";
import { compare, type Fidelity, logitsFromFile, logitsOf, transcript, WINDOW } from "./fidelity.ts";
import { Yardstick } from "./yardstick/client.ts";

const MODELS = (process.env["PALIMPSEST_BENCH_MODELS"] ?? "smollm2-135m,qwen2.5-coder-0.5b").split(",");
const THREADS = Math.min(2, availableParallelism());
const shown = ({ tokens, meanKl, top1 }: Fidelity) => ({ tokens, "mean KL": meanKl.toFixed(5), "same top token": `${(top1 * 100).toFixed(2)} %` });

async function measure(model: string): Promise<void> {
  const { file } = await resolveModel(model);
  const { tokenizer } = await readModel(file);
  const tokens = new Tokenizer(tokenizer).encode(transcript(), { special: false });
  const truth = await openRuntime(file, { pages: WINDOW / 16, threads: THREADS, kernels: "reference", cacheDtype: "f32" });
  const vocabulary = truth.info.vocabularySize;
  const table: Record<string, ReturnType<typeof shown>> = {};
  for (const level of deviceInfo().levels.filter((name) => name !== "reference" && name !== "scalar")) {
    const tried = await openRuntime(file, { pages: WINDOW / 16, threads: THREADS, kernels: level, cacheDtype: "f16" });
    table[`${level}, f16 cells`] = shown(await compare(logitsOf(truth, tokens), logitsOf(tried, tokens), tokens.length, vocabulary));
    await tried.dispose();
  }
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-fidelity-"));
  const yardstick = new Yardstick();
  try {
    await yardstick.load(file, WINDOW, THREADS, "f16");
    const out = join(folder, "logits.f32");
    await yardstick.logits(out, tokens, WINDOW);
    const theirs = logitsFromFile(out, vocabulary);
    table["llama.cpp v0.5.0, f16 cells"] = shown(await compare(logitsOf(truth, tokens), theirs.read, tokens.length, vocabulary));
    theirs.close();
  } finally {
    yardstick.close();
    rmSync(folder, { recursive: true, force: true });
  }
  await truth.dispose();
  console.log(model);
  console.table(table);
}

for (const model of MODELS) await measure(model);
