// Writes packages/engine/test/golden/tokens.json.gz: texts and the ids that llama.cpp gives them.
//
//   npm install --prefix FOLDER --omit=optional node-llama-cpp@3.22.1
//   npm install --prefix FOLDER --omit=optional --no-save @node-llama-cpp/linux-x64@3.22.1
//   node scripts/golden/tokens.mjs FOLDER MODELS
//
// FOLDER is outside of this repository: llama.cpp is a yardstick and never a dependency. MODELS is the folder of the two model files
// (`palimpsest pull smollm2-135m`, `palimpsest pull qwen2.5-coder-0.5b`).

import { writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { goldenStrings } from "./strings.mjs";

const [folder, models] = process.argv.slice(2);
if (models === undefined) throw new Error("usage: node scripts/golden/tokens.mjs FOLDER MODELS");
const { getLlama } = await import(pathToFileURL(path.join(path.resolve(folder), "node_modules/node-llama-cpp/dist/index.js")).href);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });

const SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
const QWEN = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf";

/** Each model with its own pre-tokenizer on every text; other pre-tokenizers on the same vocabularies on every third text. */
const RUNS = [
  { file: SMOLLM2, pre: "smollm", every: 1 },
  { file: QWEN, pre: "qwen2", every: 1 },
  { file: SMOLLM2, pre: "gpt-2", every: 3 },
  { file: SMOLLM2, pre: "default", every: 3 },
  { file: QWEN, pre: "default", every: 3 },
  { file: QWEN, pre: "llama-bpe", every: 3 },
];

const strings = goldenStrings();
const runs = [];
for (const { file, pre, every } of RUNS) {
  const metadataOverrides = { tokenizer: { ggml: { pre } } };
  const model = await llama.loadModel({ modelPath: path.join(models, file), vocabOnly: true, metadataOverrides });
  const texts = strings.filter((_, index) => index % every === 0);
  const plain = texts.map((text) => [...model.tokenize(text, false)]);
  // With special tokens, where that differs.
  const special = texts.map((text, index) => {
    const ids = [...model.tokenize(text, true)];
    return ids.join() === plain[index].join() ? 0 : ids;
  });
  runs.push({ file, pre, every, plain, special });
  await model.dispose();
  console.log(`${file} ${pre}: ${texts.length} texts, ${plain.flat().length} ids, ${special.filter((ids) => ids !== 0).length} differ with special tokens`);
}
const json = JSON.stringify({ llamaCpp: llama.llamaCppRelease, strings, runs });
const target = new URL("../../packages/engine/test/golden/tokens.json.gz", import.meta.url);
writeFileSync(target, gzipSync(json, { level: 9 }));
console.log(`${strings.length} texts, ${json.length} bytes, ${gzipSync(json, { level: 9 }).length} compressed`);
process.exit(0);
