// The library face on one thread: what a number costs, and how much of a second core a second thread brings.
import { cpus, loadavg } from "node:os";
import { Bench } from "tinybench";
import {
  type Compute,
  type KeyDtype,
  matmul,
  openCells,
  openCompute,
  packMatrix,
  quantize,
  rotateKeys,
  segmentAttention,
  type TensorType,
} from "../src/index.ts";

const [CELLS, HEADS, HEAD_SIZE] = [2048, 8, 128];
const ROTARY = { dimensions: HEAD_SIZE, pairing: "half-split", base: 500_000 } as const;

const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7));

interface Row {
  work: string;
  "ms (median)": string;
  "ms (best)": string;
  "ns each (best)": string;
  each: string;
}
const rows: Row[] = [];

async function measure(work: string, count: number, each: string, run: () => unknown): Promise<void> {
  const bench = new Bench({ time: 400, warmupTime: 100 }).add(work, async () => void (await run()));
  const [task] = await bench.run();
  const result = task?.result;
  if (result === undefined || !("latency" in result)) throw new Error(`${work} failed`);
  const { p50, min } = result.latency;
  rows.push({ work, "ms (median)": p50.toFixed(3), "ms (best)": min.toFixed(3), "ns each (best)": ((min * 1e6) / count).toFixed(3), each });
}

for (const pairing of ["half-split", "interleaved"] as const) {
  for (const dtype of ["f32", "f16", "bf16", "q8_0"] as KeyDtype[]) {
    const count = CELLS * HEADS * HEAD_SIZE;
    const keys = { f32: () => numbers(count), f16: () => new Uint16Array(count).fill(0x3800), bf16: () => new Uint16Array(count).fill(0x3f00), q8_0: () => quantize("Q8_0", numbers(count)) }[dtype]();
    const options = { dtype, heads: HEADS, headSize: HEAD_SIZE, rotary: { ...ROTARY, pairing }, delta: -7 };
    await measure(`rotateKeys ${dtype}, ${pairing}`, count, "number", () => rotateKeys(keys, options));
  }
}

async function products(compute: Compute, type: TensorType, inputs: number): Promise<void> {
  const size = 2048;
  const matrix = await packMatrix(compute, { type, rows: size, columns: size, bytes: quantize(type, numbers(size * size)) });
  const x = numbers(inputs * size);
  await measure(`matmul ${type}, ${inputs} × ${size} × ${size}, ${compute.level}, threads ${compute.threads}`, inputs * size * size, "product", () => matmul(x, matrix));
  matrix.dispose();
}

async function attention(compute: Compute, shifts: number): Promise<void> {
  const cells = openCells(compute, { pages: CELLS / 16 + 1, heads: 4 * HEADS, kvHeads: HEADS, headSize: HEAD_SIZE, rotary: ROTARY, contextLength: 2 * CELLS });
  const each = Int32Array.from({ length: CELLS }, (_, i) => i);
  await cells.store({ slots: each, positions: each, keys: numbers(CELLS * HEADS * HEAD_SIZE), values: numbers(CELLS * HEADS * HEAD_SIZE) });
  const length = CELLS / shifts;
  const run = (value: (i: number) => number) => Int32Array.from({ length: shifts }, (_, i) => value(i));
  const segments = {
    position: Int32Array.of(2 * CELLS - 1), cell: Int32Array.of(CELLS), rowOf: Int32Array.of(0, 1), viewOf: Int32Array.of(0, shifts),
    runPage: run((i) => Math.floor((i * length) / 16)), runFirst: run((i) => (i * length) % 16), runLength: run(() => length),
    runBirth: run((i) => i * length), runShift: run((i) => i), pages: Int32Array.from({ length: CELLS / 16 }, (_, i) => i),
  };
  const queries = numbers(4 * HEADS * HEAD_SIZE);
  await measure(`segmentAttention, 1 row, ${CELLS} f16 cells, ${shifts} shifts, threads ${compute.threads}`, CELLS, "cell", () => segmentAttention(cells, segments, queries));
  cells.dispose();
}

for (const threads of [1, 2]) {
  const compute = openCompute({ threads });
  for (const type of ["Q4_0", "Q4_K", "Q8_0", "F16"] as TensorType[]) for (const inputs of [1, 256]) await products(compute, type, inputs);
  for (const shifts of [1, 128]) await attention(compute, shifts);
  await compute.dispose();
}
console.table(rows);
const [load = 0] = loadavg();
const busy = load > cpus().length ? ": too busy to believe the medians" : "";
console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${cpus().length} cores, load ${load.toFixed(1)}${busy}`);
