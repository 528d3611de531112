// Writes packages/engine/test/golden/prompts.json.gz: chats, and what llama.cpp's own template engine and tokenizer make of them.
//
//   git clone FOLDER/node_modules/node-llama-cpp/llama/gitRelease.bundle SOURCES     # the headers of that release
//   node scripts/golden/prompts.mjs FOLDER SOURCES MODELS
//
// FOLDER holds node-llama-cpp with its linux-x64 package, as for tokens.mjs. Its JavaScript has no way to llama.cpp's engine (it renders
// with @huggingface/jinja, as this repository does), but the package carries the shared library that llama-server renders with: the few
// lines of prompts.cpp are compiled against the release's headers and call it.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { goldenChats } from "./chats.mjs";

const [folder, sources, models] = process.argv.slice(2);
if (models === undefined) throw new Error("usage: node scripts/golden/prompts.mjs FOLDER SOURCES MODELS");
const libraries = path.join(path.resolve(folder), "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64");

function run(command, args, input) {
  const { status, stdout, stderr } = spawnSync(command, args, { input, encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${command} failed: ${stderr}`);
  return stdout;
}

const scratch = mkdtempSync(path.join(tmpdir(), "golden-"));
try {
  const program = path.join(scratch, "prompts");
  const headers = ["include", "ggml/include", "common", "vendor"].map((name) => `-I${path.join(sources, name)}`);
  const objects = ["libllama-common.so", "libllama.v0.5.0.so"].map((name) => path.join(libraries, name));
  const source = fileURLToPath(new URL("prompts.cpp", import.meta.url));
  run("g++", ["-std=c++17", ...headers, source, "-o", program, ...objects, "-Wl,--allow-shlib-undefined", `-Wl,-rpath,${libraries}`]);

  const chats = goldenChats();
  const runs = ["SmolLM2-135M-Instruct.Q4_1.gguf", "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf"].map((file) => {
    const answers = run(program, [path.join(models, file)], chats.map((chat) => `${JSON.stringify(chat)}\n`).join(""));
    const prompts = answers.trimEnd().split("\n").map((line) => JSON.parse(line));
    const failed = prompts.find((prompt) => prompt.error !== undefined);
    if (prompts.length !== chats.length || failed !== undefined) throw new Error(`${file}: ${prompts.length} answers, ${failed?.error}`);
    console.log(`${file}: ${prompts.length} prompts, ${prompts.flatMap((prompt) => prompt.ids).length} ids`);
    return { file, prompts };
  });
  const packed = gzipSync(JSON.stringify({ llamaCpp: "v0.5.0", chats, runs }), { level: 9 });
  writeFileSync(new URL("../../packages/engine/test/golden/prompts.json.gz", import.meta.url), packed);
  console.log(`${packed.length} bytes`);
} finally {
  rmSync(scratch, { recursive: true });
}
