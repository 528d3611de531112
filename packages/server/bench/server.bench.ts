import { Bench } from "tinybench";
import { createApp } from "../src/app.ts";
import { serviceOf } from "../src/assemble.ts";
import { DEFAULT_LIMITS } from "../src/limits.ts";
import { chatReader } from "../src/openai/chat.ts";
import { byteTokenizerData, ScriptedRuntime, scriptOf } from "../test/scripted.ts";

/*
 * What the HTTP layer adds: reading a request (checking, rendering, tokenising, folding), and writing a token (assembly, JSON, frame).
 * The model is scripted, so the numbers hold nothing of computing.
 */
const TOKENS = 500;
const runtime = new ScriptedRuntime({ pages: 8192, contextLength: 100_000 });
runtime.script.answers.set(0n, scriptOf("x".repeat(TOKENS)));
const service = serviceOf(runtime, byteTokenizerData(), { id: "scripted" });
const app = createApp();
app.lifecycle.ready(service);
await app.fastify.ready();

const messages = Array.from({ length: 100 }, (_, index) => ({ role: index % 2 === 0 ? "user" : "assistant", content: `message ${index} `.repeat(20) }));
const directives = Array.from({ length: 20 }, (_, index) => ({ op: "drop", target: { messages: [index * 4 + 1] }, at: { message: index * 4 + 3 } }));
const read = chatReader(DEFAULT_LIMITS);
const caller = { namespace: "public", operator: true };
const post = (payload: object) => app.fastify.inject({ method: "POST", url: "/v1/completions", payload });

const bench = new Bench({ time: 1_000 });
bench
  .add("read a chat of 100 messages", () => void read(service, caller, { messages }))
  .add("the same with 20 directives", () => void read(service, caller, { messages, directives }))
  .add(`answer with ${TOKENS} tokens, whole`, () => post({ prompt: "a", max_tokens: TOKENS, temperature: 0 }))
  .add(`answer with ${TOKENS} tokens, streamed`, () => post({ prompt: "a", max_tokens: TOKENS, temperature: 0, stream: true }));
await bench.run();
console.table(bench.table());
await app.fastify.close();
await service.dispose();
