// Golden log-probabilities of the small models of crates/replay/tests/llama_cpp.rs, computed by llama.cpp.
//
//   npm install --prefix FOLDER --omit=optional node-llama-cpp@3.22.1
//   npm install --prefix FOLDER --omit=optional --no-save @node-llama-cpp/linux-x64@3.22.1
//   cargo run -p palimpsest-replay --example tiny_models MODELS
//   node packages/kernels-cuda/scripts/golden_llama_cpp.mjs FOLDER MODELS > packages/kernels-cuda/crates/replay/tests/data/llama_cpp.txt
//
//   tokens ID…
//   model NAME
//   row ROW ID:LOGPROB…      the 8 likeliest, and every 32nd token that is likelier than 1e-5
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, models] = process.argv.slice(2);
const library = join(resolve(folder), "node_modules/node-llama-cpp/dist/index.js");
const { getLlama } = await import(pathToFileURL(library).href);

const TOKENS = Array.from({ length: 100 }, (_, at) => (at * 7919 + at * at * 31 + 5) % 509);
const ROWS = [0, 15, 16, 63, 99];
const TOP = 8;

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
console.log("tokens", ...TOKENS);
for (const file of readdirSync(models).filter((name) => name.endsWith(".gguf")).toSorted()) {
  const model = await llama.loadModel({ modelPath: join(resolve(models), file) });
  const cells = { experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" };
  const context = await model.createContext({ contextSize: 128, threads: 1, flashAttention: false, ...cells });
  const steps = await context.getSequence().controlledEvaluate(TOKENS.map((token) => [token, { generateNext: { probabilities: true } }]));
  console.log("model", file.replace(/\.gguf$/, ""));
  for (const row of ROWS) {
    const best = [...steps[row].next.probabilities].toSorted((a, b) => b[1] - a[1]);
    const wanted = best.filter(([token, probability], at) => at < TOP || (token % 32 === 0 && probability > 1e-5));
    console.log("row", row, ...wanted.map(([token, probability]) => `${token}:${Math.log(probability).toFixed(6)}`));
  }
  await context.dispose();
  await model.dispose();
}
await llama.dispose();
