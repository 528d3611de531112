// `npm run bench -- kernels [--only TEXT] [--rounds N]`: products and attention alone, through the library face, against ggml's,
// interleaved in one run on the same shapes and threads. Whole steps: `npm run bench -- engine`.
import { availableParallelism, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { type CellDtype, type CellPages, type Compute, matmul, openCells, openCompute, packMatrix, quantize, segmentAttention, type Segments, type TensorType } from "@palimpsest/kernels-cuda";
import { busyness, median } from "./machine.ts";
import { Yardstick } from "./yardstick/client.ts";

const { values: options } = parseArgs({ options: { only: { type: "string", multiple: true, default: [] }, rounds: { type: "string", default: "5" } } });
const ROUNDS = Number(options.rounds);
const THREADS = Math.min(2, availableParallelism());
/** Above this share of the machine for others a figure is not to be believed. */
const BUSY_MAX = 0.1;

const [MATRIX_ROWS, MATRIX_COLUMNS] = [4096, 2048];
const TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "F32"] as const satisfies readonly TensorType[];
/** SmolLM2's attention. */
const SHAPE = { heads: 9, kvHeads: 3, headSize: 64 };
const CELLS = 6144;
const PAGE_SIZE = 16;
const ROTARY = { dimensions: SHAPE.headSize, pairing: "half-split", base: 10_000 } as const;

interface Row {
  name: string;
  repeats: number;
  open: () => Promise<{ run: () => Promise<unknown>; dispose: () => void }>;
  theirs: (yardstick: Yardstick, repeats: number) => Promise<number>;
}

const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7));

function product(compute: Compute, type: TensorType, inputs: number): Row {
  return {
    name: `${type} ${MATRIX_ROWS} × ${MATRIX_COLUMNS}, ${inputs} row${inputs > 1 ? "s" : ""}`,
    repeats: inputs > 16 ? 3 : 20,
    open: async () => {
      const bytes = quantize(type, numbers(MATRIX_ROWS * MATRIX_COLUMNS));
      const matrix = await packMatrix(compute, { type, rows: MATRIX_ROWS, columns: MATRIX_COLUMNS, bytes });
      const x = numbers(inputs * MATRIX_COLUMNS);
      return { run: () => matmul(x, matrix), dispose: () => matrix.dispose() };
    },
    theirs: (yardstick, repeats) => yardstick.multiply(type, MATRIX_ROWS, MATRIX_COLUMNS, inputs, THREADS, repeats),
  };
}

/** A view of all cells in runs of `length` cells, of which each stretch of CELLS / shifts stands elsewhere. */
function segmentsOf(rows: number, length: number, shifts: number): Segments {
  const runs = Math.ceil(CELLS / length);
  const run = (value: (i: number) => number) => Int32Array.from({ length: runs }, (_, i) => value(i));
  const row = (value: (i: number) => number) => Int32Array.from({ length: rows }, (_, i) => value(i));
  const first = (i: number) => i * length;
  const last = (i: number) => Math.min(CELLS, first(i + 1)) - 1;
  const pages = Array.from({ length: runs }, (_, i) => Array.from({ length: Math.floor(last(i) / PAGE_SIZE) - Math.floor(first(i) / PAGE_SIZE) + 1 }, (__, p) => Math.floor(first(i) / PAGE_SIZE) + p));
  let listed = 0;
  return {
    position: row((i) => CELLS + shifts + i),
    cell: row((i) => CELLS + i),
    rowOf: Int32Array.of(0, rows),
    viewOf: Int32Array.of(0, runs),
    runPage: run((i) => (listed += i > 0 ? pages[i - 1]!.length : 0)),
    runFirst: run((i) => first(i) % PAGE_SIZE),
    runLength: run((i) => last(i) - first(i) + 1),
    runBirth: run(first),
    runShift: run((i) => Math.floor((i * shifts) / runs)),
    pages: Int32Array.from(pages.flat()),
  };
}

async function filled(compute: Compute, dtype: CellDtype, rows: number): Promise<CellPages> {
  const pages = Math.ceil((CELLS + rows) / PAGE_SIZE);
  const cells = openCells(compute, { pages, pageSize: PAGE_SIZE, ...SHAPE, dtype, rotary: ROTARY, contextLength: 2 * CELLS });
  const each = Int32Array.from({ length: CELLS + rows }, (_, i) => i);
  const values = numbers(each.length * SHAPE.kvHeads * SHAPE.headSize);
  await cells.store({ slots: each, positions: each, keys: values, values });
  return cells;
}

function attention(compute: Compute, dtype: CellDtype, rows: number, length = CELLS, shifts = 1): Row {
  const view = length === CELLS ? "" : `, runs of ${length}, ${shifts} shift${shifts > 1 ? "s" : ""}`;
  return {
    name: `attention, ${rows} row${rows > 1 ? "s" : ""}, ${CELLS} cells ${dtype}${view}`,
    repeats: rows > 1 ? 2 : 10,
    open: async () => {
      const cells = await filled(compute, dtype, rows);
      const segments = segmentsOf(rows, length, shifts);
      const queries = numbers(rows * SHAPE.heads * SHAPE.headSize);
      return { run: () => segmentAttention(cells, segments, queries), dispose: () => cells.dispose() };
    },
    // The yardstick has no runs and no shifts: its cells lie in one piece, and stand where they were born.
    theirs: (yardstick, repeats) => yardstick.attend(dtype, SHAPE, CELLS, rows, THREADS, repeats),
  };
}

function selected(compute: Compute): Row[] {
  const products = TYPES.flatMap((type) => [1, 4, 128].map((inputs) => product(compute, type, inputs)));
  const whole = (["f32", "f16", "q8_0"] as const).flatMap((dtype) => [1, 128].map((rows) => attention(compute, dtype, rows)));
  const cut = (["f16", "q8_0"] as const).flatMap((dtype) =>
    [300, 30, 3].flatMap((length) => [1, 16, 256].filter((shifts) => shifts * length <= CELLS).map((shifts) => attention(compute, dtype, 1, length, shifts))),
  );
  const all = [...products, ...whole, ...cut];
  const rows = options.only.length === 0 ? all : all.filter(({ name }) => options.only.some((text) => name.toLowerCase().includes(text.toLowerCase())));
  if (rows.length === 0) throw new Error(`No row contains ${options.only.join(" or ")}. There are:\n${all.map(({ name }) => `  ${name}`).join("\n")}`);
  return rows;
}

/** Median milliseconds of some runs, after one more. */
async function timeOf(run: () => Promise<unknown>, repeats: number): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i <= repeats; i++) {
    const start = performance.now();
    await run();
    if (i > 0) times.push(performance.now() - start);
  }
  return median(times);
}

interface Measured {
  ours: number[];
  theirs: number[];
  /** Highest share of others before a round. */
  busiest: number;
}

async function measure({ name, repeats, open, theirs }: Row, yardstick: Yardstick): Promise<Measured> {
  const { run, dispose } = await open();
  const measured: Measured = { ours: [], theirs: [], busiest: 0 };
  for (let round = 1; round <= ROUNDS; round++) {
    process.stderr.write(`\r${`round ${round}/${ROUNDS}: ${name}`.padEnd(100)}`);
    measured.busiest = Math.max(measured.busiest, await busyness());
    measured.ours.push(await timeOf(run, repeats));
    measured.theirs.push(await theirs(yardstick, repeats));
  }
  dispose();
  return measured;
}

async function main(): Promise<void> {
  const compute = openCompute({ threads: THREADS });
  const yardstick = new Yardstick();
  const table: Record<string, string>[] = [];
  let busiest = 0;
  for (const row of selected(compute)) {
    const measured = await measure(row, yardstick);
    busiest = Math.max(busiest, measured.busiest);
    const ratios = measured.ours.map((ms, round) => measured.theirs[round]! / ms);
    table.push({ work: row.name, "ours ms": median(measured.ours).toFixed(3), "ggml ms": median(measured.theirs).toFixed(3), "× ggml": median(ratios).toFixed(2), busy: measured.busiest > BUSY_MAX ? "too busy to believe" : "" });
  }
  yardstick.close();
  await compute.dispose();
  process.stderr.write(`\r${"".padEnd(100)}\r`);
  console.log(`${compute.level}, ${THREADS} threads on both sides, ggml of llama.cpp v0.5.0 from source with its own packed layouts, medians of ${ROUNDS} rounds, one after the other in each`);
  console.log(`load ${loadavg().map((load) => load.toFixed(2)).join(" ")}, others took up to ${(100 * busiest).toFixed(0)} % of the machine`);
  if (busiest > BUSY_MAX) console.log("The machine was too busy to believe these figures: run again when it is quiet.");
  console.table(table);
}

await main();
