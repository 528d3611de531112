// `npm run bench -- fidelity`: how near each level, and llama.cpp, is to f32 on dequantised weights, on bench/text/transcript.txt.
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { Tokenizer } from "@palimpsest/engine";
import { deviceInfo, openRuntime, readModel } from "@palimpsest/kernels-cuda";
import { resolveModel } from "@palimpsest/server";
import { compare, type Fidelity, type LogitSource, logitsFromFile, logitsOf, transcript, WINDOW, writeLogits } from "./fidelity.ts";
import { Yardstick } from "./yardstick/client.ts";

const MODELS = (process.env["PALIMPSEST_BENCH_MODELS"] ?? "smollm2-135m,qwen2.5-coder-0.5b").split(",");
const THREADS = Math.min(2, availableParallelism());
const shown = ({ tokens, meanKl, top1 }: Fidelity) => ({ tokens, "mean KL": meanKl.toFixed(5), "same top token": `${(top1 * 100).toFixed(2)} %` });

async function measure(model: string, folder: string): Promise<void> {
  const { file } = await resolveModel(model);
  const { tokenizer } = await readModel(file);
  const tokens = new Tokenizer(tokenizer).encode(transcript(), { special: false });
  process.stderr.write(`\r${`${model}: reference, f32 cells`.padEnd(100)}`);
  const reference = await openRuntime(file, { pages: WINDOW / 16, threads: THREADS, kernels: "reference", cacheDtype: "f32" });
  const vocabulary = reference.info.vocabularySize;
  // The slowest of all, and the same for every row.
  await writeLogits(join(folder, "truth.f32"), logitsOf(reference, tokens), tokens.length);
  await reference.dispose();
  const truth = logitsFromFile(join(folder, "truth.f32"), vocabulary);
  const table: Record<string, ReturnType<typeof shown>> = {};
  const enter = async (name: string, tried: LogitSource) => {
    process.stderr.write(`\r${`${model}: ${name}`.padEnd(100)}`);
    table[name] = shown(await compare(truth.read, tried, tokens.length, vocabulary));
  };
  const fast = deviceInfo().levels.filter((name) => name !== "reference" && name !== "scalar");
  const best = fast.at(-1);
  // What cells of codes lose by themselves, and together with the codes of a fast level.
  const runs = [...fast.map((level) => [level, "f16"] as const), ["reference", "q8_0"] as const, ...(best ? [[best, "q8_0"] as const] : [])];
  for (const [kernels, cacheDtype] of runs) {
    const tried = await openRuntime(file, { pages: WINDOW / 16, threads: THREADS, kernels, cacheDtype });
    await enter(`${kernels}, ${cacheDtype} cells`, logitsOf(tried, tokens));
    await tried.dispose();
  }
  const yardstick = new Yardstick();
  try {
    for (const cells of ["f16", "q8_0"] as const) {
      await yardstick.load(file, WINDOW, THREADS, cells);
      const out = join(folder, `${cells}.f32`);
      await yardstick.logits(out, tokens, WINDOW);
      const theirs = logitsFromFile(out, vocabulary);
      await enter(`llama.cpp v0.5.0, ${cells} cells`, theirs.read);
      theirs.close();
    }
  } finally {
    yardstick.close();
    truth.close();
  }
  process.stderr.write(`\r${"".padEnd(100)}\r`);
  console.log(model);
  console.table(table);
}

for (const model of MODELS) {
  // Logits of all rows: hundreds of megabytes a model.
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-fidelity-"));
  try {
    await measure(model, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
