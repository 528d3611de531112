import { afterAll, expect, test } from "vitest";
import { type Compute, dequantize, deviceInfo, matmul, openCompute, packMatrix, quantize, type TensorType } from "../src/index.ts";
import { Random } from "./twins.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const TYPES: TensorType[] = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"];
const { levels } = deviceInfo();
const computes: Compute[] = levels.flatMap((kernels) => [openCompute({ kernels, threads: 1 }), openCompute({ kernels, threads: 3 })]);
afterAll(async () => void (await Promise.all(computes.map((compute) => compute.dispose()))));

const blockOf = (type: TensorType) => (type.endsWith("_K") ? 256 : type.startsWith("Q") ? 32 : 1);

/** f64 sums over the numbers that the bytes decode to, and what an int8 code of x may cost: half a step for each number of its block. */
function twin(x: Float32Array, weights: Float32Array, rows: number, columns: number): { out: number[]; slack: number[] } {
  const [out, slack]: [number[], number[]] = [[], []];
  for (let row = 0; row < x.length / columns; row++) {
    for (let output = 0; output < rows; output++) {
      let [sum, loss] = [0, 0];
      for (let first = 0; first < columns; first += 32) {
        const block = x.subarray(row * columns + first, row * columns + Math.min(columns, first + 32));
        const step = Math.max(...block.map(Math.abs)) / 127;
        for (const [k, number] of block.entries()) {
          const weight = weights[output * columns + first + k] as number;
          sum += number * weight;
          loss += (step / 2) * Math.abs(weight);
        }
      }
      out.push(sum);
      slack.push(loss);
    }
  }
  return { out, slack };
}

test("products of every type and level are those of the scalar twin, as near as their codes allow", async () => {
  const random = new Random(61);
  console.log(`seed ${random.seed}`);
  for (const type of TYPES) {
    for (let round = 0; round < (LONG ? 40 : 4); round++) {
      const columns = blockOf(type) === 1 ? random.between(1, 130) : blockOf(type) * random.between(1, 5);
      const [rows, inputs] = [random.between(1, 70), random.pick([1, 2, 3, 5, 17])];
      const bytes = quantize(type, random.floats(rows * columns));
      const x = random.floats(inputs * columns, random.pick([1, 1e-3, 50]));
      const { out, slack } = twin(x, dequantize(type, bytes), rows, columns);
      const roundings = 4e-6 * Math.max(1, ...x.map(Math.abs)) * Math.sqrt(columns);
      const results = new Map<string, Float32Array>();
      for (const compute of computes) {
        const matrix = await packMatrix(compute, { type, rows, columns, bytes });
        const ours = await matmul(x, matrix);
        expect(ours.length).toBe(inputs * rows);
        for (const [i, exact] of out.entries()) {
          const allowed = roundings + (compute.level === "reference" || blockOf(type) === 1 ? 0 : (slack[i] ?? 0) * 1.01);
          const error = Math.abs((ours[i] ?? 0) - exact);
          if (!(error <= allowed)) throw new Error(`${type} on ${compute.level}, ${inputs} × ${columns} × ${rows}, output ${i}: ${ours[i]} for ${exact}, ${allowed} allowed`);
        }
        // Whatever the threads, and whichever rows come along.
        expect(ours).toEqual(results.get(compute.level) ?? ours);
        results.set(compute.level, ours);
        const row = random.below(inputs);
        expect(await matmul(x.slice(row * columns, (row + 1) * columns), matrix)).toEqual(ours.slice(row * rows, (row + 1) * rows));
        matrix.dispose();
      }
    }
  }
});

test("more rows than pass together are the same as one by one", async () => {
  const random = new Random(62);
  const compute = computes.at(-1) as Compute;
  const matrix = await packMatrix(compute, { type: "Q4_0", rows: 40, columns: 64, bytes: quantize("Q4_0", random.floats(40 * 64)) });
  const x = random.floats(600 * 64);
  const all = await matmul(x, matrix);
  for (const row of [0, 255, 256, 511, 512, 599]) expect(await matmul(x.slice(row * 64, row * 64 + 64), matrix)).toEqual(all.slice(row * 40, row * 40 + 40));
  expect(matrix.byteLength).toBeLessThan(40 * 64);
  expect((await matmul(new Float32Array(0), matrix)).length).toBe(0);
});

test("arguments are read when the call is made, and a packed matrix keeps no hold on its bytes", async () => {
  const random = new Random(63);
  const compute = computes.at(-1) as Compute;
  const bytes = quantize("Q8_0", random.floats(32 * 32));
  const [before, x] = [bytes.slice(), random.floats(32)];
  const packing = packMatrix(compute, { type: "Q8_0", rows: 32, columns: 32, bytes });
  bytes.fill(0xff);
  structuredClone(bytes.buffer, { transfer: [bytes.buffer as ArrayBuffer] });
  const matrix = await packing;
  const again = await packMatrix(compute, { type: "Q8_0", rows: 32, columns: 32, bytes: before });
  const asked = x.slice();
  const product = matmul(asked, matrix);
  asked.fill(Number.NaN);
  expect(await product).toEqual(await matmul(x, again));
});

test("a product leaves the event loop free", async () => {
  const random = new Random(64);
  const compute = computes.find(({ level, threads }) => level === "reference" && threads === 1) as Compute;
  const matrix = await packMatrix(compute, { type: "F32", rows: 1024, columns: 1024, bytes: new Uint8Array(random.floats(1024 * 1024).buffer) });
  let [turns, running] = [0, true];
  const turn = () => {
    turns++;
    if (running) setImmediate(turn);
  };
  const product = matmul(new Float32Array(1024 * 1024).fill(0.5), matrix);
  setImmediate(turn);
  await product;
  running = false;
  console.log(`${turns} turns of the event loop meanwhile`);
  expect(turns).toBeGreaterThan(10);
});

test("disposing waits for what was called before, and ends what comes after", async () => {
  const random = new Random(65);
  const compute = openCompute({ threads: 2 });
  const matrix = await packMatrix(compute, { type: "F32", rows: 512, columns: 512, bytes: new Uint8Array(random.floats(512 * 512).buffer) });
  const x = random.floats(64 * 512);
  const [first, second] = [matmul(x, matrix), matmul(x, matrix)];
  matrix.dispose();
  matrix.dispose();
  await expect(matmul(x, matrix)).rejects.toMatchObject({ code: "runtime_disposed", kind: "cancelled" });
  const disposed = compute.dispose();
  expect(await first).toEqual(await second);
  await disposed;
  await compute.dispose();
  await expect(packMatrix(compute, { type: "F32", rows: 1, columns: 1, bytes: new Uint8Array(4) })).rejects.toMatchObject({ code: "runtime_disposed" });
});
