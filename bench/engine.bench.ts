// `npm run bench -- engine [--only TEXT] [--rounds N]`: the forward step against llama.cpp, interleaved in one run on the same file and
// threads. --only: rows whose name contains the text (and those that their figures are made of); may be given more than once.
import { existsSync, mkdirSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { KernelError, openRuntime, type Runtime } from "@palimpsest/kernels-cuda";
import { pullModel } from "@palimpsest/server";
import { busyness, example, median, type Roof, roof, ROOT } from "./machine.ts";
import { Probe } from "./probe.ts";
import { levelOf, type Subject, type Work, WORKS } from "./works.ts";
import { Yardstick } from "./yardstick/client.ts";

const { values: options } = parseArgs({ options: { only: { type: "string", multiple: true, default: [] }, rounds: { type: "string", default: "5" } } });
const ROUNDS = Number(options.rounds);
const THREADS = Math.min(2, availableParallelism());
const CONTEXT = 8192;
/** Above this share of the machine for others a figure is not to be believed. */
const BUSY_MAX = 0.1;

interface Result {
  ours: number[];
  theirs: number[];
  /** Highest share of others before a measurement. */
  busiest: number;
  counts: { weightBytes: number; multiplications: number };
  /** Why the row was not run. */
  refused?: string;
}

function selected(): Work[] {
  if (options.only.length === 0) return [...WORKS];
  const wanted = (name: string) => options.only.some((text) => name.toLowerCase().includes(text.toLowerCase()));
  const needed = new Set(WORKS.filter(({ name }) => wanted(name)).flatMap(({ needs = [] }) => needs));
  const works = WORKS.filter(({ name }) => wanted(name) || needed.has(name));
  if (works.length === 0) throw new Error(`No row contains ${options.only.join(" or ")}. There are:\n${WORKS.map(({ name }) => `  ${name}`).join("\n")}`);
  return works;
}

/** The model's file; requantised once into the checkout's cache folder where the subject wants that. */
async function fileOf({ model, requantized }: Subject): Promise<string> {
  const file = await pullModel(model);
  if (requantized === undefined) return file;
  const folder = join(ROOT, ".cache", "bench");
  const made = join(folder, `${basename(file, ".gguf")}-as-${requantized}.gguf`);
  if (!existsSync(made)) {
    mkdirSync(folder, { recursive: true });
    example("model", "requantize", file, requantized, made);
  }
  return made;
}

async function measureSubject(subject: Subject, works: readonly Work[]): Promise<Result[]> {
  const results: Result[] = works.map(() => ({ ours: [], theirs: [], busiest: 0, counts: { weightBytes: 0, multiplications: 0 } }));
  const file = await fileOf(subject);
  let runtime: Runtime;
  try {
    runtime = await openRuntime(file, { pages: 1024, threads: THREADS, cacheDtype: subject.cells, kernels: levelOf(subject) });
  } catch (error) {
    if (!(error instanceof KernelError) || error.kind !== "unsupported") throw error;
    return results.map((result) => ({ ...result, refused: error.message }));
  }
  const probe = new Probe(runtime);
  const yardstick = works.some(({ theirs }) => theirs) ? new Yardstick(subject.level) : undefined;
  await yardstick?.load(file, CONTEXT, THREADS, subject.cells);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [at, work] of works.entries()) {
      process.stderr.write(`\r${`${subject.name}: round ${round}/${ROUNDS}, ${work.name}`.padEnd(100)}`);
      const busy = await busyness();
      const ours = await work.ours(probe);
      const theirs = yardstick && work.theirs ? await work.theirs(yardstick) : Number.NaN;
      const result = results[at];
      if (round === 0 || !result) continue; // warm-up, and the cells that later rounds stand behind
      result.busiest = Math.max(result.busiest, busy);
      result.ours.push(ours);
      result.theirs.push(theirs);
      if (work.tokens > 0) result.counts = { weightBytes: probe.counts?.weightBytes ?? Number.NaN, multiplications: probe.counts?.multiplications ?? Number.NaN };
    }
  }
  process.stderr.write(`\r${"".padEnd(100)}\r`);
  yardstick?.close();
  await runtime.dispose();
  return results;
}

const shown = (value: number, digits: number) => (Number.isFinite(value) ? value.toFixed(digits) : "");

function verdict(figure: number, target: Work["target"], busy: boolean): string {
  if (!target || !Number.isFinite(figure)) return "";
  const reaches = (bound: number) => (target.atMost === true ? figure <= bound : figure >= bound);
  const said = reaches(target.aim) ? "aim reached" : reaches(target.must) ? "reached" : "MISSED";
  return busy ? `${said} (too busy to believe)` : said;
}

function report(works: readonly Work[], results: ReadonlyMap<string, Result>, limits: Roof): void {
  const of = (name: string) => median(results.get(name)?.ours ?? []);
  const rows = works.map((work) => {
    const result = results.get(work.name);
    if (!result || result.refused !== undefined) return { work: work.name, verdict: `not run: ${result?.refused ?? ""}` };
    const rate = (ms: number[]) => (work.tokens > 0 ? shown((work.tokens * 1000) / median(ms), 1) : "");
    const ratios = result.ours.map((value, i) => (result.theirs[i] ?? Number.NaN) / value);
    const counts = (name: string) => results.get(name)?.counts ?? { weightBytes: Number.NaN, multiplications: Number.NaN };
    const figure = work.figure?.({ ours: median(result.ours), theirs: median(result.theirs), of, roof: () => limits, counts }) ?? median(ratios);
    const sign = work.target?.atMost === true ? "≤" : "≥";
    return {
      work: work.name,
      "ours tok/s": rate(result.ours),
      "llama.cpp tok/s": rate(result.theirs),
      figure: `${shown(figure, 2)} ${work.unit ?? "× llama.cpp"}`,
      must: work.target ? `${sign} ${work.target.must}` : "",
      aim: work.target ? `${sign} ${work.target.aim}` : "",
      verdict: verdict(figure, work.target, result.busiest > BUSY_MAX),
    };
  });
  console.table(rows);
}

async function main(): Promise<void> {
  const works = selected();
  const subjects = [...new Set(works.map(({ subject }) => subject))];
  const results = new Map<string, Result>();
  const limits = roof(THREADS);
  for (const subject of subjects) {
    const own = works.filter((work) => work.subject === subject);
    for (const [at, result] of (await measureSubject(subject, own)).entries()) results.set(own[at]?.name ?? "", result);
  }
  const busiest = Math.max(...[...results.values()].map((result) => result.busiest));
  console.log(`${THREADS} threads on both sides, llama.cpp v0.5.0 from source, medians of ${ROUNDS} rounds, one after the other in each; cells f16 where not said`);
  console.log(`This machine reads ${limits.readGBs} GB/s and does ${limits.int8Gops} int8 GOP/s; load ${loadavg().map((load) => load.toFixed(2)).join(" ")}, others took up to ${(100 * busiest).toFixed(0)} % of it`);
  if (busiest > BUSY_MAX) console.log("The machine was too busy to believe these figures: run again when it is quiet.");
  report(works, results, limits);
}

await main();
