import { afterAll, expect, test } from "vitest";
import {
  CellPages,
  type CellsOptions,
  Compute,
  dequantize,
  KernelError,
  matmul,
  openCells,
  openCompute,
  PackedMatrix,
  packMatrix,
  quantize,
  rotaryFrequencies,
  rotateKeys,
  segmentAttention,
} from "../src/index.ts";
import { errorOf } from "./support.ts";
import { Random } from "./twins.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const compute = openCompute({ threads: 2 });
afterAll(() => compute.dispose());

const ROTARY = { dimensions: 8, pairing: "half-split", base: 10_000 } as const;
const ROTATE = { dtype: "f32", heads: 2, headSize: 8, rotary: ROTARY, delta: 3 } as const;
const CELLS: CellsOptions = { pages: 4, pageSize: 4, heads: 2, kvHeads: 1, headSize: 8, dtype: "f32", rotary: ROTARY, contextLength: 64 };

/** An array whose memory has gone elsewhere. */
function detached<T extends Float32Array | Int32Array | Uint8Array>(array: T): T {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
  return array;
}

/** Calls with one argument or field changed; `param` is named by the error. */
type Refusal = [param: string, call: () => unknown];
const no = <T>(value: unknown): T => value as T;

test("the rotation names what is wrong, and writes nothing then", async () => {
  const keys = new Float32Array(32).fill(7);
  const turn = (changes: object, over: unknown = keys) => () => rotateKeys(no(over), no({ ...ROTATE, ...changes }));
  const rotary = (changes: object) => turn({ rotary: { ...ROTARY, ...changes } });
  const scaling = (changes: object) => rotary({ scaling: changes });
  const refusals: Refusal[] = [
    ["keys", turn({}, [...keys])],
    ["keys", turn({}, new Float64Array(32))],
    ["keys", turn({}, new Uint16Array(32))],
    ["keys", turn({}, new DataView(keys.buffer))],
    ["keys", turn({}, { length: 32, [Symbol.toStringTag]: "Float32Array" })],
    ["keys", turn({}, keys.subarray(1))],
    ["keys", turn({}, detached(new Float32Array(32)))],
    ["keys", turn({ delta: Int32Array.of(1) })],
    ["keys", turn({ delta: Int32Array.of(1, 2, 3) })],
    ["keys", turn({ heads: 2 ** 31 - 1, delta: Int32Array.of(1, 2) })],
    ["keys", turn({ headSize: 2 ** 31 - 1, delta: Int32Array.of(1, 2) })],
    ["keys", turn({ dtype: "f16" }, new Float32Array(32))],
    ["keys", turn({ dtype: "q8_0", headSize: 32 }, new Uint8Array(35))],
    ["headSize", turn({ dtype: "q8_0", headSize: 40 }, new Uint8Array(136))],
    ["delta", turn({ delta: [1, 2] })],
    ["delta", turn({ delta: 1.5 })],
    ["delta", turn({ delta: Number.NaN })],
    ["delta", turn({ delta: 2 ** 31 })],
    ["delta", turn({ delta: -Infinity })],
    ["delta", turn({ delta: new Float32Array(2) })],
    ["delta", turn({ delta: detached(new Int32Array(2)) })],
    ["dtype", turn({ dtype: "f64" })],
    ["dtype", turn({ dtype: undefined })],
    ["shift", turn({ shift: 3 })],
    ["options", () => rotateKeys(keys, no(undefined))],
    ...[0, -1, 1.5, Number.NaN, 2 ** 31, 1e300, "2", undefined, 2n].flatMap((bad): Refusal[] => [
      ["heads", turn({ heads: bad })],
      ["headSize", turn({ headSize: bad })],
      ["rotary.dimensions", rotary({ dimensions: bad })],
    ]),
    ["rotary", turn({ rotary: null })],
    ["rotary.dimensions", rotary({ dimensions: 7 })],
    ["rotary.dimensions", rotary({ dimensions: 10 })],
    ["rotary.dimensions", rotary({ dimensions: 2 ** 31 - 2 })],
    ["rotary.pairing", rotary({ pairing: "halves" })],
    ["rotary.theta", rotary({ theta: 1 })],
    ...[0, -1, Number.NaN, Infinity, 1e300, "10000", undefined].map((base): Refusal => ["rotary.base", rotary({ base })]),
    ["rotary", scaling({ type: "linear", factor: 1e-320 })],
    ["rotary.frequencyFactors", rotary({ frequencyFactors: [1, 1, 1, 1] })],
    ["rotary.frequencyFactors", rotary({ frequencyFactors: new Float32Array(5).fill(1) })],
    ["rotary.frequencyFactors[2]", rotary({ frequencyFactors: Float32Array.of(1, 1, 0, 1) })],
    ["rotary.frequencyFactors[1]", rotary({ frequencyFactors: Float32Array.of(1, Number.NaN, 1, 1) })],
    ["rotary.scaling", scaling(no("linear"))],
    ["rotary.scaling.type", scaling({ type: "ntk", factor: 2 })],
    ["rotary.scaling.factor", scaling({ type: "linear" })],
    ["rotary.scaling.factor", scaling({ type: "linear", factor: 0 })],
    ["rotary.scaling.betaFast", scaling({ type: "linear", factor: 2, betaFast: 1 })],
    ["rotary.scaling.originalContextLength", scaling({ type: "yarn", factor: 2 })],
    ["rotary.scaling.betaFast", scaling({ type: "yarn", factor: 2, originalContextLength: 64, betaFast: 1, betaSlow: 1 })],
    ["rotary.scaling.highFrequencyFactor", scaling({ type: "llama3", factor: 2, originalContextLength: 64, lowFrequencyFactor: 4, highFrequencyFactor: 4 })],
  ];
  for (const [number, [param, call]] of refusals.entries()) {
    expect({ number, ...pick(await errorOf(call)) }).toEqual({ number, code: "argument_invalid", param });
  }
  expect(keys.every((key) => key === 7)).toBe(true);
  expect(await errorOf(() => rotaryFrequencies(no({ ...ROTARY, dimensions: 3 })))).toMatchObject({ param: "rotary.dimensions" });
  expect(await errorOf(() => rotaryFrequencies({ ...ROTARY, dimensions: 2 ** 31 - 2 }))).toMatchObject({ param: "rotary.dimensions" });
  // No rows at all are no error.
  rotateKeys(new Float32Array(0), ROTATE);
});

test("codes of weights name what is wrong", async () => {
  const refusals: Refusal[] = [
    ["type", () => quantize(no("Q3_K"), new Float32Array(32))],
    ["type", () => quantize(no(undefined), new Float32Array(32))],
    ["type", () => dequantize(no("q8_0"), new Uint8Array(34))],
    ["values", () => quantize("Q8_0", no([...new Float32Array(32)]))],
    ["values", () => quantize("Q8_0", new Float32Array(33))],
    ["values", () => quantize("Q4_K", new Float32Array(32))],
    ["values", () => quantize("Q8_0", new Float32Array(32).fill(Number.NaN))],
    ["values", () => quantize("Q4_0", new Float32Array(32).fill(1e6))],
    ["values", () => quantize("F16", Float32Array.of(Infinity))],
    ["values", () => quantize("F32", detached(new Float32Array(1)))],
    ["bytes", () => dequantize("Q8_0", new Uint8Array(33))],
    ["bytes", () => dequantize("F32", no(new Uint16Array(2)))],
    ["bytes", () => dequantize("Q6_K", new Uint8Array(209))],
  ];
  for (const [param, call] of refusals) expect(pick(await errorOf(call))).toEqual({ code: "argument_invalid", param });
  expect(quantize("Q8_0", new Float32Array(0)).length).toBe(0);
  expect(dequantize("Q4_K", new Uint8Array(0)).length).toBe(0);
});

test("products name what is wrong", async () => {
  const matrix = await packMatrix(compute, { type: "F32", rows: 2, columns: 3, bytes: new Uint8Array(24) });
  const pack = (changes: object) => () => packMatrix(compute, no({ type: "F32", rows: 2, columns: 3, bytes: new Uint8Array(24), ...changes }));
  const refusals: Refusal[] = [
    ["compute", () => packMatrix(no({}), { type: "F32", rows: 1, columns: 1, bytes: new Uint8Array(4) })],
    ["compute", () => packMatrix(no(Object.create(Compute.prototype)), { type: "F32", rows: 1, columns: 1, bytes: new Uint8Array(4) })],
    ["matrix", () => matmul(new Float32Array(3), no({ rows: 2, columns: 3 }))],
    ["matrix", () => matmul(new Float32Array(3), no(Object.create(PackedMatrix.prototype)))],
    ["x", () => matmul(no([1, 2, 3]), matrix)],
    ["x", () => matmul(new Float32Array(4), matrix)],
    ["x", () => matmul(no(new Float64Array(3)), matrix)],
    ["x", () => matmul(detached(new Float32Array(3)), matrix)],
    ["x[1]", () => matmul(Float32Array.of(1, Number.NaN, 3), matrix)],
    ["x[2]", () => matmul(Float32Array.of(1, 2, -Infinity), matrix)],
    ["type", pack({ type: "F8" })],
    ["bytes", pack({ bytes: new Uint8Array(25) })],
    ["bytes", pack({ bytes: new Float32Array(6) })],
    ["bytes", pack({ bytes: detached(new Uint8Array(24)) })],
    ["bytes", pack({ rows: 2 ** 31 - 1, columns: 2 ** 31 - 1 })],
    ["columns", pack({ type: "Q8_0" })],
    ["order", pack({ order: "column" })],
    ...[0, -1, 1.5, Number.NaN, 2 ** 31, 1e300, "2", undefined].flatMap((bad): Refusal[] => [
      ["rows", pack({ rows: bad })],
      ["columns", pack({ columns: bad })],
    ]),
    ["threads", () => openCompute(no({ threads: 0 }))],
    ["threads", () => openCompute(no({ threads: 1025 }))],
    ["kernels", () => openCompute(no({ kernels: "fast" }))],
    ["level", () => openCompute(no({ level: "scalar" }))],
  ];
  for (const [number, [param, call]] of refusals.entries()) {
    expect({ number, ...pick(await errorOf(call)) }).toEqual({ number, code: "argument_invalid", param });
  }
  expect(await errorOf(() => openCompute({ kernels: "cuda" }))).toMatchObject({ code: "backend_unsupported", param: "kernels" });
});

const open = (changes: object) => () => openCells(compute, no({ ...CELLS, ...changes }));

test("cells name what is wrong, before memory is reserved", async () => {
  const refusals: Refusal[] = [
    ["compute", () => openCells(no(null), CELLS)],
    ["dtype", open({ dtype: "f64" })],
    ["heads", open({ heads: 3, kvHeads: 2 })],
    ["heads", open({ heads: 2048 })],
    ["kvHeads", open({ heads: 2048, kvHeads: 2048 })],
    ["headSize", open({ headSize: 2048 })],
    ["pageSize", open({ pageSize: 4097 })],
    ["pages", open({ pages: 2 ** 31 - 1 })],
    ["layers", open({ layers: 1025 })],
    ["contextLength", open({ contextLength: 2 ** 22 + 1 })],
    ["contextLength", open({ contextLength: 2 ** 31 - 1 })],
    ["rotary.dimensions", open({ rotary: { ...ROTARY, dimensions: 10 } })],
    ["scale", open({ scale: Number.NaN })],
    ["scale", open({ scale: 1e300 })],
    ["softCap", open({ softCap: 0 })],
    ["magnitude", open({ magnitude: -1 })],
    ["windows", open({ windows: 5 })],
    ...["pages", "pageSize", "layers", "heads", "kvHeads", "headSize", "contextLength", "window"].flatMap((name) =>
      [0, -1, 1.5, Number.NaN, 2 ** 31, 1e300, "2"].map((bad): Refusal => [name, open({ [name]: bad })]),
    ),
  ];
  for (const [number, [param, call]] of refusals.entries()) {
    expect({ number, ...pick(await errorOf(call)) }).toEqual({ number, code: "argument_invalid", param });
  }
  // 2^31 slots of 1,024 heads of 1,024 numbers in 1,024 layers: more than any machine has.
  const huge = { layers: 1024, kvHeads: 1024, heads: 1024, headSize: 1024, pageSize: 4096, pages: 524_287 };
  expect(await errorOf(open(huge))).toMatchObject({ code: "cells_exceed_memory", kind: "capacity" });
});

test("stores and attention name what is wrong", async () => {
  const cells = openCells(compute, CELLS);
  const windowed = openCells(compute, { ...CELLS, window: 4 });
  const store = (changes: object) => () =>
    cells.store(no({ slots: Int32Array.of(0, 1), positions: Int32Array.of(0, 1), keys: new Float32Array(16), values: new Float32Array(16), ...changes }));
  const segments = {
    position: Int32Array.of(6), cell: Int32Array.of(15), rowOf: Int32Array.of(0, 1), viewOf: Int32Array.of(0, 2),
    runPage: Int32Array.of(0, 1), runFirst: Int32Array.of(1, 0), runLength: Int32Array.of(3, 2), runBirth: Int32Array.of(0, 4), runShift: Int32Array.of(0, -1), pages: Int32Array.of(2, 0),
  };
  const attend = (changes: object, over: CellPages = cells) => () => segmentAttention(over, no({ ...segments, ...changes }), new Float32Array(16));
  expect((await segmentAttention(cells, segments, new Float32Array(16))).length).toBe(16);
  const refusals: [string, string, () => unknown][] = [
    ["argument_invalid", "cells", () => segmentAttention(no(Object.create(CellPages.prototype)), segments, new Float32Array(16))],
    ["argument_invalid", "queries", () => segmentAttention(cells, segments, new Float32Array(15))],
    ["argument_invalid", "queries", () => segmentAttention(cells, segments, no(new Float64Array(16)))],
    ["argument_invalid", "queries[3]", () => segmentAttention(cells, segments, new Float32Array(16).fill(Infinity, 3, 4))],
    ["argument_invalid", "layer", () => segmentAttention(cells, segments, new Float32Array(16), { layer: 1 })],
    ["argument_invalid", "sinks", () => segmentAttention(cells, segments, new Float32Array(16), { sinks: new Float32Array(1) })],
    ["argument_invalid", "sinks[1]", () => segmentAttention(cells, segments, new Float32Array(16), { sinks: Float32Array.of(0, Number.NaN) })],
    ["argument_invalid", "layer", store({ layer: -1 })],
    ["argument_invalid", "layer", store({ layer: 1 })],
    ["argument_invalid", "slots[1]", store({ slots: Int32Array.of(0, 16) })],
    ["argument_invalid", "slots[0]", store({ slots: Int32Array.of(-1, 15) })],
    ["argument_invalid", "slots[1]", store({ slots: Int32Array.of(3, 3) })],
    ["argument_invalid", "positions[1]", store({ positions: Int32Array.of(0, 64) })],
    ["argument_invalid", "positions", store({ positions: Int32Array.of(0) })],
    ["argument_invalid", "keys", store({ keys: new Float32Array(17) })],
    ["argument_invalid", "values", store({ values: detached(new Float32Array(16)) })],
    ["argument_invalid", "keys[5]", store({ keys: new Float32Array(16).fill(Number.NaN, 5) })],
    ["argument_invalid", "rotated", store({ rotated: 1 })],
    ["argument_invalid", "slot", store({ slot: Int32Array.of(0, 1) })],
    ["step_invalid", "position", attend({ position: [6] })],
    ["step_invalid", "position[0]", attend({ position: Int32Array.of(64) })],
    ["step_invalid", "cell", attend({ cell: Int32Array.of(15, 14) })],
    ["step_invalid", "cell[0]", attend({ cell: Int32Array.of(16) })],
    ["step_invalid", "rowOf", attend({ rowOf: new Int32Array(0) })],
    ["step_invalid", "rowOf[1]", attend({ rowOf: Int32Array.of(0, 2) })],
    ["step_invalid", "viewOf", attend({ viewOf: Int32Array.of(0) })],
    ["step_invalid", "viewOf[1]", attend({ viewOf: Int32Array.of(0, 3) })],
    ["step_invalid", "runPage[1]", attend({ runPage: Int32Array.of(0, 2) })],
    ["step_invalid", "runFirst[0]", attend({ runFirst: Int32Array.of(4, 0) })],
    ["step_invalid", "runLength[1]", attend({ runLength: Int32Array.of(3, 5) })],
    ["step_invalid", "runLength[0]", attend({ runLength: Int32Array.of(0, 2) })],
    ["step_invalid", "runBirth[1]", attend({ runBirth: Int32Array.of(0, 63) })],
    ["step_invalid", "runShift[1]", attend({ runShift: Int32Array.of(0, -5) })],
    ["step_invalid", "runShift[1]", attend({ runShift: Int32Array.of(0, 2 ** 31 - 1) })],
    ["step_invalid", "pages[0]", attend({ pages: Int32Array.of(4, 0) })],
    ["step_invalid", "pages", attend({ pages: detached(new Int32Array(2)) })],
    ["step_invalid", "runShift[1]", attend({ runShift: Int32Array.of(0, -2) }, windowed)],
    ["argument_invalid", "segments", () => segmentAttention(cells, no(null), new Float32Array(16))],
  ];
  for (const [number, [code, param, call]] of refusals.entries()) expect({ number, ...pick(await errorOf(call)) }).toEqual({ number, code, param });
  const rows = new Int32Array(65_537);
  expect(await errorOf(() => segmentAttention(cells, { ...segments, position: rows, cell: rows, rowOf: Int32Array.of(0, 65_537) }, new Float32Array(0)))).toMatchObject({ code: "step_invalid", param: "position" });
  cells.dispose();
  expect(await errorOf(store({}))).toMatchObject({ code: "runtime_disposed" });
  windowed.dispose();
});

test("what is empty is answered with nothing", async () => {
  const cells = openCells(compute, CELLS);
  const [none, zero] = [new Int32Array(0), Int32Array.of(0)];
  const empty = { position: none, cell: none, rowOf: zero, viewOf: zero, runPage: none, runFirst: none, runLength: none, runBirth: none, runShift: none, pages: none };
  await cells.store({ slots: none, positions: none, keys: new Float32Array(0), values: new Float32Array(0) });
  expect((await segmentAttention(cells, empty, new Float32Array(0))).length).toBe(0);
  // A segment that has a view and no rows, alone and between two that have rows.
  const view = { runPage: zero, runFirst: zero, runLength: Int32Array.of(3), runBirth: zero, runShift: zero, pages: zero };
  expect((await segmentAttention(cells, { ...empty, ...view, rowOf: Int32Array.of(0, 0), viewOf: Int32Array.of(0, 1) }, new Float32Array(0))).length).toBe(0);
  const between = {
    position: Int32Array.of(3, 4), cell: Int32Array.of(3, 4), rowOf: Int32Array.of(0, 1, 1, 2), viewOf: Int32Array.of(0, 1, 2, 3), pages: zero,
    runPage: Int32Array.of(0, 0, 0), runFirst: Int32Array.of(0, 0, 0), runLength: Int32Array.of(3, 2, 3), runBirth: Int32Array.of(0, 0, 0), runShift: Int32Array.of(0, 5, 0),
  };
  expect([...(await segmentAttention(cells, between, new Float32Array(32).fill(1)))]).toEqual([...new Float32Array(32)]);
  cells.dispose();
});

/** What a careless caller may pass. */
function anything(random: Random): unknown {
  const numbers = [Number.NaN, -1, 0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 2 ** 31 - 1, -(2 ** 31), 1e9];
  const buffer = new ArrayBuffer(64 + random.below(64));
  return random.pick<() => unknown>([
    () => Int32Array.from({ length: random.below(5) }, () => random.pick(numbers)),
    () => Int32Array.from({ length: random.below(3) }, () => random.below(4)),
    () => new Float32Array(16 * random.below(4)),
    () => random.floats(random.below(40)),
    () => new Uint8Array(buffer, random.between(1, 31), random.below(32)),
    () => new Int32Array(new SharedArrayBuffer(4 * random.below(6))),
    () => detached(new Int32Array(1 + random.below(4))),
    () => detached(new Float32Array(16)),
    () => new Float32Array(buffer, 4 * random.below(8), random.below(8)),
    () => random.pick(numbers),
    () => random.pick<unknown>([undefined, null, "f32", "q8_0", "f16", "bf16", true, [], {}, 5n]),
  ])();
}

test("whatever is passed, a call answers or says what is wrong, and the process lives", async () => {
  const random = new Random(81);
  console.log(`seed ${random.seed}`);
  const cells = openCells(compute, CELLS);
  const matrix = await packMatrix(compute, { type: "Q8_0", rows: 3, columns: 32, bytes: quantize("Q8_0", random.floats(96)) });
  const changed = <T extends object>(fields: T): T => {
    const names = Object.keys(fields);
    const changes = Array.from({ length: random.below(3) }, () => [random.pick(names), anything(random)]);
    return { ...fields, ...Object.fromEntries(changes) };
  };
  const segments = {
    position: Int32Array.of(6, 7), cell: Int32Array.of(14, 15), rowOf: Int32Array.of(0, 2), viewOf: Int32Array.of(0, 2),
    runPage: Int32Array.of(0, 1), runFirst: Int32Array.of(1, 0), runLength: Int32Array.of(3, 2), runBirth: Int32Array.of(0, 4), runShift: Int32Array.of(0, -1), pages: Int32Array.of(2, 0),
  };
  const calls: (() => unknown)[] = [
    () => rotateKeys(no(random.chance(0.5) ? anything(random) : new Float32Array(32)), changed({ ...ROTATE, delta: no(Int32Array.of(1, 2)) })),
    () => rotateKeys(new Float32Array(32), { ...ROTATE, rotary: no(changed({ ...ROTARY, scaling: no({ type: "yarn", factor: 2, originalContextLength: 64 }), frequencyFactors: no(new Float32Array(4).fill(1)) })) }),
    () => quantize(no(random.pick(["Q8_0", "Q4_K", "F32", "F16", 1])), no(anything(random))),
    () => dequantize(no(random.pick(["Q8_0", "Q6_K", "F32", "BF16", null])), no(anything(random))),
    () => matmul(no(anything(random)), matrix),
    () => packMatrix(compute, changed({ type: "Q8_0", rows: 2, columns: 32, bytes: new Uint8Array(68) })),
    () => cells.store(changed({ slots: Int32Array.of(0, 1), positions: Int32Array.of(0, 1), keys: new Float32Array(16), values: new Float32Array(16) })),
    () => segmentAttention(cells, changed(segments), random.chance(0.8) ? random.floats(32) : no(anything(random))),
    () => openCells(compute, changed({ ...CELLS })).dispose(),
  ];
  let [answered, refused] = [0, 0];
  for (let i = 0; i < (LONG ? 200_000 : 6000); i++) {
    try {
      await random.pick(calls)();
      answered++;
    } catch (error) {
      if (!(error instanceof KernelError) || error.kind === "internal") throw error;
      refused++;
    }
  }
  console.log(`${answered} answered, ${refused} refused`);
  expect(refused).toBeGreaterThan(1000);
  expect(answered).toBeGreaterThan(500);
  // All is as it was.
  expect((await matmul(new Float32Array(32), matrix)).length).toBe(3);
});

function pick({ code, param }: KernelError): { code: string; param: string | undefined } {
  return { code, param };
}
