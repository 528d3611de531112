// `npm run bench -- engine`: the forward step against llama.cpp, interleaved in one run on the same file and threads.
//
//   PALIMPSEST_BENCH_MODELS   comma-separated: smollm2-135m (default), qwen2.5-coder-0.5b
//   PALIMPSEST_BENCH_ROUNDS   rounds (default 5)
//   PALIMPSEST_BENCH_LEVEL    native (default) or avx2: both sides
import { availableParallelism, cpus, loadavg } from "node:os";
import { openRuntime } from "@palimpsest/kernels-cuda";
import { resolveModel } from "@palimpsest/server";
import { Probe } from "./probe.ts";
import { Yardstick } from "./yardstick/client.ts";

const ROUNDS = Number(process.env["PALIMPSEST_BENCH_ROUNDS"] ?? 5);
const LEVEL = process.env["PALIMPSEST_BENCH_LEVEL"] === "avx2" ? "avx2" : "native";
const MODELS = (process.env["PALIMPSEST_BENCH_MODELS"] ?? "smollm2-135m").split(",");
const THREADS = Math.min(2, availableParallelism());
const DEPTH = 6144;

interface Work {
  name: string;
  tokens: number;
  ours: (probe: Probe) => Promise<number>;
  theirs?: (yardstick: Yardstick) => Promise<number>;
}

const WORKS: Work[] = [
  { name: "prefill 512 from empty", tokens: 512, ours: (p) => p.prefill(512, 0), theirs: (y) => y.prefill(512, 0) },
  { name: "decode behind 16", tokens: 48, ours: (p) => p.decode(48, 16), theirs: (y) => y.decode(48, 16) },
  { name: "decode, 4 streams", tokens: 4 * 24, ours: (p) => p.decode(24, 16, 4), theirs: (y) => y.decode(24, 16, 4) },
  { name: "drop 200 of 1,024, reposition, next token", tokens: 1, ours: (p) => p.shift(1024, 200), theirs: (y) => y.shift(1024, 200) },
  { name: `prefill 128 behind ${DEPTH}`, tokens: 128, ours: (p) => p.prefill(128, DEPTH), theirs: (y) => y.prefill(128, DEPTH) },
  { name: `decode behind ${DEPTH}`, tokens: 12, ours: (p) => p.decode(12, DEPTH), theirs: (y) => y.decode(12, DEPTH) },
  { name: `decode behind ${DEPTH}, 16 shifts`, tokens: 12, ours: (p) => p.decodeShifted(12, DEPTH, 16) },
  { name: `decode behind ${DEPTH}, 256 shifts`, tokens: 12, ours: (p) => p.decodeShifted(12, DEPTH, 256) },
];

const cpuTimes = () => cpus().reduce((sum, { times }) => ({ idle: sum.idle + times.idle, all: sum.all + times.idle + times.user + times.sys + times.nice + times.irq }), { idle: 0, all: 0 });

/** Share of the machine that others used during a wait of 200 ms: above 10 % a figure is not to be believed. */
async function busyness(): Promise<number> {
  const before = cpuTimes();
  await new Promise((resolve) => setTimeout(resolve, 200));
  const after = cpuTimes();
  return 1 - (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

async function compare(model: string): Promise<void> {
  const { file: path } = await resolveModel(model);
  const runtime = await openRuntime(path, { pages: 1024, threads: THREADS, cacheDtype: "f16", kernels: LEVEL === "avx2" ? "avx2" : "auto" });
  const probe = new Probe(runtime);
  const yardstick = new Yardstick(LEVEL);
  await yardstick.load(path, 8192, THREADS, "f16");
  const times = WORKS.map(() => ({ ours: [] as number[], theirs: [] as number[] }));
  let busiest = 0;
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [at, work] of WORKS.entries()) {
      process.stderr.write(`\r${model}: round ${round}/${ROUNDS}, ${work.name}${" ".repeat(30)}`);
      busiest = Math.max(busiest, await busyness());
      const ours = await work.ours(probe);
      const theirs = (await work.theirs?.(yardstick)) ?? Number.NaN;
      if (round === 0) continue; // warm-up, and the cells that later rounds stand behind
      times[at]?.ours.push(ours);
      times[at]?.theirs.push(theirs);
    }
  }
  process.stderr.write(`\r${" ".repeat(90)}\r`);
  yardstick.close();
  await runtime.dispose();
  console.log(`${model}, ${THREADS} threads, ours: ${runtime.level} with f16 cells; llama.cpp v0.5.0 (${LEVEL}), f16 cells; ${ROUNDS} rounds; load ${loadavg()[0]?.toFixed(2)}, others took up to ${(busiest * 100).toFixed(0)} % of the machine`);
  if (busiest > 0.1) console.log("The machine was too busy to believe these figures.");
  console.table(WORKS.map((work, at) => row(work, times[at] ?? { ours: [], theirs: [] })));
}

const shown = (value: number, digits: number) => (Number.isNaN(value) ? "" : value.toFixed(digits));

function row(work: Work, { ours, theirs }: { ours: number[]; theirs: number[] }) {
  const rate = (ms: number) => (work.tokens * 1000) / ms;
  const ratios = ours.map((value, i) => (theirs[i] ?? Number.NaN) / value);
  return {
    work: work.name,
    "ours tok/s": shown(rate(median(ours)), 1),
    "ours best": shown(rate(Math.min(...ours)), 1),
    "llama.cpp tok/s": shown(rate(median(theirs)), 1),
    "llama.cpp best": shown(rate(Math.min(...theirs)), 1),
    "ratio (median)": shown(median(ratios), 2),
  };
}

for (const model of MODELS) await compare(model);
