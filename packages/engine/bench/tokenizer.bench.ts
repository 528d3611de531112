import { existsSync, readFileSync, readdirSync } from "node:fs";
import { availableParallelism, homedir, loadavg } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { readModel } from "@palimpsest/kernels-cuda";
import { Bench } from "tinybench";
import { type ChatMessage, ChatTemplate, Tokenizer } from "../src/index.ts";

const MODELS = { "smollm2-135m": "SmolLM2-135M-Instruct.Q4_1.gguf", "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf" };
const MEGABYTE = 1_000_000;

/** About a megabyte of a text, the same over and over where it is shorter. */
function megabyteOf(text: string): string {
  const repeated = text.repeat(Math.ceil(MEGABYTE / Buffer.byteLength(text)));
  return Buffer.from(repeated).subarray(0, MEGABYTE).toString();
}

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const inside = path.join(folder, entry.name);
    if (entry.isDirectory()) return sources(inside);
    return entry.name.endsWith(".ts") ? [readFileSync(inside, "utf8")] : [];
  });
}

const golden = JSON.parse(gunzipSync(readFileSync(new URL("../test/golden/tokens.json.gz", import.meta.url))).toString()) as { strings: string[] };
const code = megabyteOf(sources(fileURLToPath(new URL("../src", import.meta.url))).join("\n"));
// Each copy of the golden texts differs in a number, so that few words are in the cache.
const everything = megabyteOf(Array.from({ length: 8 }, (_, copy) => golden.strings.map((text) => `${text}${copy}`).join("")).join(""));
const word = megabyteOf("thequickbrownfoxjumpsoverthelazydog");

const messages = Array.from({ length: 1000 }, (_, index): ChatMessage => ({ role: index % 2 === 0 ? "user" : "assistant", content: code.slice(index * 400, index * 400 + 400) }));

console.log(`${availableParallelism()} cores, load ${loadavg().map((value) => value.toFixed(2)).join(" ")}: above the number of cores the times say little`);
for (const [name, file] of Object.entries(MODELS)) {
  const location = path.join(process.env["PALIMPSEST_HOME"] ?? path.join(homedir(), ".cache", "palimpsest"), "models", file);
  if (!existsSync(location)) {
    console.log(`${file} is not in the cache folder; fetch it with: palimpsest pull ${name}`);
    continue;
  }
  const { tokenizer: data } = await readModel(location);
  const tokenizer = new Tokenizer(data);
  const template = new ChatTemplate(data.chatTemplate, tokenizer);
  const ids = tokenizer.encode(code, { special: false });
  const whole = (text: string) => () => void tokenizer.encodeWithOffsets(text, { special: true });

  const bench = new Bench({ time: 1_000, warmupTime: 200, iterations: 3 });
  bench
    .add("encode source code", whole(code))
    .add("encode golden texts of all scripts", whole(everything))
    .add("encode one word of a megabyte", whole(word))
    .add("decode source code", () => void tokenizer.decode(ids))
    .add("render a chat of 1,000 messages", () => void template.render({ messages, addGenerationPrompt: true }))
    .add("make a tokenizer from a file's data", () => void new Tokenizer(data));
  await bench.run();
  console.log(name);
  console.table(
    bench.tasks.map((task) => {
      if (task.result.state !== "completed") throw new Error(`${task.name}: ${task.result.state}`);
      const median = task.result.latency.p50;
      const bytes = /^(en|de)code/.test(task.name) ? MEGABYTE : task.name.startsWith("render") ? messages.length * 400 : null;
      return { task: task.name, "median ms": median.toFixed(1), "MB/s": bytes === null ? "" : (bytes / 1000 / median).toFixed(1), samples: task.result.latency.samplesCount };
    }),
  );
}
