import { existsSync } from "node:fs";
import { homedir, loadavg } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { fold, type Directive } from "@palimpsest/directives";
import { openRuntime, type Runtime, type Step, type StepResult } from "@palimpsest/kernels-cuda";
import { Engine } from "@palimpsest/engine";
import { Bench } from "tinybench";
import { planWork } from "../src/planner.ts";
import { RangeSet } from "../src/ranges.ts";
import { Reads } from "../src/report.ts";
import { collect, requestOf } from "../test/kit/harness.ts";
import { ScriptedRuntime } from "../test/kit/scripted-runtime.ts";

/*
 * What the engine adds to a step, and what a model does under it. Shares of the main thread come from the event loop's own clock, so
 * threads that compute are not in them.
 */

/** A model that computes nothing: what is left is the engine. */
class IdleRuntime extends ScriptedRuntime {
  override async step(step: Step): Promise<StepResult> {
    const outputs = step.outRow.length;
    this.steps++;
    this.rows += step.token.length;
    const counts = { rows: step.token.length, cellsStored: 0, cellsRead: 0, rotations: 0, bytesMoved: 0 };
    return { ids: new Int32Array(outputs), logprobs: new Float32Array(outputs), topIds: new Int32Array(0), topLogprobs: new Float32Array(0), counts };
  }

  override clearPages(): void {}
}

interface Figure {
  work: string;
  figure: string;
  "main thread": string;
}

const figures: Figure[] = [];
const tokensOf = (length: number, seed: number) => Int32Array.from({ length }, (_, i) => (i * 7919 + seed * 104_729) % 49_000);
const logOf = (tokens: Int32Array) => ({ tokens, header: tokens.length, contextLength: 131_072 });

function ask(engine: Engine, tokens: Int32Array, maxTokens: number, directives: Directive[] = []) {
  return collect(engine.generate(requestOf(fold(logOf(tokens), directives), tokens.length, { maxTokens, logprobs: -1 })));
}

interface Measured {
  ms: number;
  steps: number;
  /** Share of the time in which the event loop was busy. */
  busy: number;
}

async function measure(engine: Engine, work: () => Promise<unknown>): Promise<Measured> {
  const steps = engine.state().steps;
  const loop = performance.eventLoopUtilization();
  const start = performance.now();
  await work();
  const ms = performance.now() - start;
  return { ms, steps: engine.state().steps - steps, busy: performance.eventLoopUtilization(loop).utilization };
}

const median = (list: readonly Measured[]): Measured => list.toSorted((a, b) => a.ms - b.ms)[list.length >> 1]!;
const add = (work: string, figure: string, { busy }: Measured) => figures.push({ work, figure, "main thread": percent(busy) });
const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** Rows of ten turns with a rolling drop and a reposition: views of many runs, as an agent's are. */
function rollingDrops(length: number, every: number): Directive[] {
  const directives: Directive[] = [];
  for (let at = 3 * every; at < length; at += every) {
    directives.push({ op: "drop", target: { tokens: [at - 3 * every, at - 3 * every + (every >> 1)] }, at: { token: at } }, { op: "reposition", at: { token: at } });
  }
  return directives;
}

async function benchBookkeeping(): Promise<void> {
  for (const [name, cells, directives] of [["plain logs of 1,000 cells", 1000, []], ["logs of 6,000 cells with 60 edits", 6000, rollingDrops(6000, 200)]] as [string, number, Directive[]][]) {
    const runtime = new IdleRuntime({ pages: 8192, vocabularySize: 50_000, contextLength: 131_072 });
    const engine = new Engine({ runtime });
    const rounds: Measured[] = [];
    for (let round = 0; round < 7; round++) {
      await Promise.all(Array.from({ length: 8 }, (_, i) => ask(engine, tokensOf(cells, i), 1, directives)));
      rounds.push(await measure(engine, () => Promise.all(Array.from({ length: 8 }, (_, i) => ask(engine, tokensOf(cells, i), 200, directives)))));
    }
    const { ms, steps } = median(rounds);
    figures.push({ work: `bookkeeping of a decode step, 8 ${name}`, figure: `${((1000 * ms) / steps).toFixed(0)} µs`, "main thread": "all" });
    await engine.dispose();
  }
}

async function benchModel(path: string): Promise<void> {
  const runtime: Runtime = await openRuntime(path, { pages: 2048, threads: 2 });
  const engine = new Engine({ runtime });
  const rounds = 5;
  const repeat = async (work: (round: number) => Promise<unknown>): Promise<Measured> => {
    const list: Measured[] = [];
    for (let round = 0; round < rounds; round++) list.push(await measure(engine, () => work(round)));
    return median(list);
  };

  const prefill = await repeat((round) => ask(engine, tokensOf(512, 100 + round), 1));
  add("prefill of 512", `${((1000 * 512) / prefill.ms).toFixed(0)} tok/s`, prefill);
  const decode = await repeat(() => ask(engine, tokensOf(64, 1), 64));
  add("decode, one stream", `${((1000 * decode.steps) / decode.ms).toFixed(0)} tok/s`, decode);
  const streams = await repeat(() => Promise.all(Array.from({ length: 8 }, (_, i) => ask(engine, tokensOf(64, 10 + i), 64))));
  add("decode, 8 streams", `${((1000 * 8 * streams.steps) / streams.ms).toFixed(0)} tok/s`, streams);

  // 1,024 cached cells, 200 of them dropped in front of one new token.
  const base = tokensOf(1024, 7);
  await ask(engine, base, 1);
  const step = await repeat((round) => ask(engine, Int32Array.from([...base, round]), 1));
  const edit: Directive[] = [{ op: "drop", target: { tokens: [300, 500] }, at: { token: 1024 } }, { op: "reposition", at: { token: 1024 } }];
  const dropped = await repeat((round) => ask(engine, Int32Array.from([...base, 20_000 + round]), 1, edit));
  add("one token behind 1,024 cached", `${step.ms.toFixed(1)} ms`, step);
  add("the same, 200 dropped and repositioned", `${dropped.ms.toFixed(1)} ms = ${(dropped.ms / step.ms).toFixed(2)} such steps`, dropped);
  console.log(`${runtime.info.name}, level ${runtime.level}, cells ${runtime.cacheDtype}, ${runtime.threads} threads`);
  await engine.dispose();
  await runtime.dispose();
}

/** Planning by intervals: costs by edits, hardly by tokens. */
async function benchPlanning(): Promise<void> {
  const bench = new Bench({ time: 500, warmupTime: 100 });
  for (const edits of [10, 100, 1000]) {
    const tokens = tokensOf(100_000, 3);
    const folded = fold(logOf(tokens), rollingDrops(tokens.length, 100_000 / (edits / 2)));
    const warm = new RangeSet();
    warm.add(0, tokens.length - 1);
    const wish = { echo: false, ask: true, open: true, known: tokens.length };
    bench
      .add(`plan 100k tokens, ${edits} directives, all but one resident`, () => void planWork(folded, warm, wish))
      .add(`plan 100k tokens, ${edits} directives, nothing resident`, () => void planWork(folded, new RangeSet(), { ...wish, known: 0 }))
      .add(`the same, and its report with ${edits} directives`, () => {
        const reads = new Reads(folded);
        for (const work of planWork(folded, new RangeSet(), { ...wish, known: 0 })) reads.ran(work, 0);
        reads.counts();
      });
  }
  await bench.run();
  console.table(bench.table());
}

await benchPlanning();
await benchBookkeeping();
const path = join(process.env["PALIMPSEST_HOME"] ?? join(homedir(), ".cache", "palimpsest"), "models", "SmolLM2-135M-Instruct.Q4_1.gguf");
if (existsSync(path)) await benchModel(path);
else console.log(`no model at ${path}: only the engine's own work was measured`);
console.table(figures);
console.log(`medians; load ${loadavg().map((value) => value.toFixed(2)).join(" ")}`);
