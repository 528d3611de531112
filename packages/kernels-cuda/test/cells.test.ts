import { expect, test } from "vitest";
import { openRuntime, type Runtime } from "../src/index.ts";
import { chain, errorOf, noCancel, tinyModels } from "./support.ts";

const path = tinyModels({ llama: { seed: 3 }, wide: { layers: 8, kvHeads: 4, heads: 4, headSize: 128 } });
const EXACT = { kernels: "scalar", cacheDtype: "f32", pages: 16, threads: 1 } as const;
const TOKENS = [5, 6, 7, 8, 9];

/** The logits of a row that reads `TOKENS` where `slots` says that they are, and its own cell behind them. */
async function logitsOf(runtime: Runtime, slots: readonly number[], own: number): Promise<Float32Array> {
  const step = chain(runtime, [11], {
    position: Int32Array.of(TOKENS.length),
    cell: Int32Array.of(own),
    viewOf: Int32Array.of(0, slots.length),
    runPage: Int32Array.from(slots, (_, i) => i),
    runFirst: Int32Array.from(slots, (slot) => slot % runtime.pageSize),
    runLength: new Int32Array(slots.length).fill(1),
    runBirth: Int32Array.from(slots, (_, i) => i),
    runShift: new Int32Array(slots.length),
    pages: Int32Array.from(slots, (slot) => Math.floor(slot / runtime.pageSize)),
  });
  await runtime.step(step, noCancel());
  return step.logits!;
}

for (const cacheDtype of ["f32", "f16"] as const) {
  test(`cells that went out and came back to other slots, of another page size, give the same bits (${cacheDtype})`, async () => {
    const runtime = await openRuntime(path("llama"), { ...EXACT, cacheDtype });
    const slots = TOKENS.map((_, i) => i);
    await runtime.step(chain(runtime, TOKENS), noCancel());
    const expected = await logitsOf(runtime, slots, 40);
    const { cells } = runtime;
    const bytes = new Uint8Array(TOKENS.length * cells!.cellBytes);
    expect(cells!.cellBytes * runtime.pageSize).toBe(runtime.pageBytes);
    await cells!.read(Int32Array.from(slots), bytes);

    const other = await openRuntime(path("llama"), { ...EXACT, cacheDtype, pageSize: 3 });
    const places = [20, 4, 31, 8, 17];
    await other.cells!.write(Int32Array.from(places), bytes);
    expect(await logitsOf(other, places, 40)).toEqual(expected);
    await other.cells!.clear(Int32Array.of(31));
    expect(await logitsOf(other, places, 41)).not.toEqual(expected);
    const left = new Uint8Array(bytes.length);
    await other.cells!.read(Int32Array.from(places), left);
    const cleared = bytes.slice();
    cleared.fill(0, 2 * cells!.cellBytes, 3 * cells!.cellBytes);
    expect(left).toEqual(cleared);
    await Promise.all([runtime.dispose(), other.dispose()]);
  });
}

test("a read sees what the step before it stored, and a step what was written before it", async () => {
  const runtime = await openRuntime(path("wide"), { ...EXACT, pages: 64 });
  const cells = runtime.cells!;
  const slots = TOKENS.map((_, i) => i);
  // Nothing is awaited in between: the order of the calls alone decides.
  const [first, second] = [new Uint8Array(TOKENS.length * cells.cellBytes), new Uint8Array(TOKENS.length * cells.cellBytes)];
  const long = chain(runtime, Array.from({ length: 64 }, (_, i) => i % 500));
  const calls = [runtime.step(chain(runtime, TOKENS), noCancel()), cells.read(Int32Array.from(slots), first), cells.clear(Int32Array.from(slots))];
  calls.push(runtime.step(long, noCancel()), cells.read(Int32Array.from(slots), second));
  await Promise.all(calls);
  expect(first.some((byte) => byte !== 0)).toBe(true);
  expect(second.some((byte) => byte !== 0)).toBe(true);
  expect(second).not.toEqual(first);
  await runtime.dispose();
});

test("more than a piece goes in pieces, and all of it arrives", async () => {
  const runtime = await openRuntime(path("wide"), { ...EXACT, pages: 64 });
  const cells = runtime.cells!;
  const slots = Int32Array.from({ length: 1024 }, (_, i) => (i * 7) % 1024);
  const bytes = Uint8Array.from({ length: slots.length * cells.cellBytes }, (_, i) => (i * 31 + (i >> 8)) & 255);
  expect(bytes.length).toBeGreaterThan(3 * 4 * 2 ** 20);
  await cells.write(slots, bytes);
  const back = new Uint8Array(bytes.length);
  await cells.read(slots, back);
  expect(Buffer.compare(back, bytes)).toBe(0);
  await runtime.dispose();
});

test("cells that are not there are refused by name, and nothing is done", async () => {
  const runtime = await openRuntime(path("llama"), EXACT);
  const cells = runtime.cells!;
  const bytes = new Uint8Array(2 * cells.cellBytes).fill(7);
  for (const wrong of [-1, 256, 2 ** 31 - 1]) {
    const slots = Int32Array.of(0, wrong);
    for (const call of [() => cells.read(slots, bytes), () => cells.write(slots, bytes), () => cells.clear(slots)]) {
      expect(await errorOf(call)).toMatchObject({ code: "argument_invalid", kind: "invalid", param: "slots[1]" });
    }
  }
  expect(await errorOf(() => cells.read(Int32Array.of(0), bytes))).toMatchObject({ code: "argument_invalid", param: "into" });
  expect(await errorOf(() => cells.write(Int32Array.of(0), bytes))).toMatchObject({ code: "argument_invalid", param: "from" });
  expect(await errorOf(() => cells.clear([0] as unknown as Int32Array))).toMatchObject({ code: "argument_invalid", param: "slots" });
  expect(await errorOf(() => cells.read(Int32Array.of(0), "x" as unknown as Uint8Array))).toMatchObject({ code: "argument_invalid", param: "into" });
  expect(bytes.every((byte) => byte === 7)).toBe(true);
  await cells.read(Int32Array.of(0, 1), bytes);
  expect(bytes.every((byte) => byte === 0)).toBe(true);
  await cells.read(new Int32Array(0), new Uint8Array(0));
  await runtime.dispose();
  for (const call of [() => cells.read(Int32Array.of(0, 1), bytes), () => cells.write(Int32Array.of(0, 1), bytes), () => cells.clear(Int32Array.of(0))]) {
    expect(await errorOf(call)).toMatchObject({ code: "runtime_disposed", kind: "cancelled" });
  }
});
