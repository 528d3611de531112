import { expect, test } from "vitest";
import { dequantize, type KeyDtype, quantize, rotaryFrequencies, type RotaryParameters, type RotaryScaling, rotateKeys } from "../src/index.ts";
import { frequenciesTwin, fromBfloat, fromHalf, Random, rotateTwin, toBfloat, toHalf } from "./twins.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const DTYPES: KeyDtype[] = ["f32", "f16", "bf16", "q8_0"];
const PAIRINGS = ["interleaved", "half-split"] as const;
const PLAIN: RotaryParameters = { dimensions: 64, pairing: "half-split", base: 10_000 };

type Keys = Float32Array | Uint16Array | Uint8Array;

function encode(dtype: KeyDtype, numbers: Float32Array): Keys {
  if (dtype === "f32") return numbers.slice();
  if (dtype === "q8_0") return quantize("Q8_0", numbers);
  return Uint16Array.from(numbers, dtype === "f16" ? toHalf : toBfloat);
}

function decode(dtype: KeyDtype, keys: Keys): Float32Array {
  if (dtype === "f32") return keys as Float32Array;
  if (dtype === "q8_0") return dequantize("Q8_0", keys as Uint8Array);
  return Float32Array.from(keys, dtype === "f16" ? fromHalf : fromBfloat);
}

/** Half a unit in the last place of a dtype, for a number; a little more, since sines of two libraries differ in their last bit. */
function rounding(dtype: KeyDtype, number: number, block: readonly number[]): number {
  const exponent = (lowest: number) => Math.max(lowest, Math.floor(Math.log2(Math.abs(number) || 1e-60)));
  if (dtype === "f32") return 2 ** (exponent(-126) - 24) * 1.0001;
  if (dtype === "f16") return 2 ** (exponent(-14) - 11) * 1.001;
  if (dtype === "bf16") return 2 ** (exponent(-126) - 8) * 1.001;
  const scale = Math.max(...block.map(Math.abs)) / 127;
  return (scale / 2 + 127 * Math.max(scale * 2 ** -11, 2 ** -25)) * 1.01;
}

function randomScaling(random: Random): RotaryScaling | undefined {
  const factor = 1 + random.below(64) / 4;
  const originalContextLength = random.pick([512, 4096, 8192, 32_768]);
  return random.pick<RotaryScaling | undefined>([
    undefined,
    { type: "linear", factor },
    { type: "llama3", factor, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength },
    { type: "yarn", factor, originalContextLength },
    { type: "yarn", factor, originalContextLength, betaFast: 16 + random.below(32), betaSlow: 1 + random.below(4), extrapolation: 0.5 + random.below(2) / 2 },
  ]);
}

test("frequencies of every scaling are those of the formulas as others write them", () => {
  const random = new Random(51);
  console.log(`seed ${random.seed}`);
  const known: RotaryParameters[] = [
    { dimensions: 64, pairing: "half-split", base: 100_000 }, // SmolLM2
    { dimensions: 128, pairing: "interleaved", base: 500_000, scaling: { type: "llama3", factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 } },
    { dimensions: 128, pairing: "half-split", base: 1_000_000, scaling: { type: "yarn", factor: 4, originalContextLength: 32_768 } }, // Qwen2.5
    { dimensions: 256, pairing: "half-split", base: 1_000_000, scaling: { type: "linear", factor: 8 } }, // Gemma 3, global layers
    { dimensions: 256, pairing: "half-split", base: 10_000 }, // Gemma 3, local layers
  ];
  for (let i = 0; i < 200; i++) {
    const dimensions = 2 * random.between(1, 128);
    const scaling = randomScaling(random);
    const frequencyFactors = random.chance(0.3) ? Float32Array.from({ length: dimensions / 2 }, () => 1 + random.below(100) / 10) : undefined;
    known.push({ dimensions, pairing: "interleaved", base: random.pick([100, 10_000, 500_000, 1e7]), ...(scaling && { scaling }), ...(frequencyFactors && { frequencyFactors }) });
  }
  for (const rotary of known) {
    const ours = rotaryFrequencies(rotary);
    const twin = frequenciesTwin(rotary);
    expect(ours.length).toBe(rotary.dimensions / 2);
    for (const [i, expected] of twin.entries()) expect(Math.abs((ours[i] ?? 0) - expected)).toBeLessThanOrEqual(Math.abs(expected) * 1e-13);
  }
});

test("keys of every dtype, pairing, scaling and shape turn as the scalar twin's, rounded once", () => {
  const random = new Random(52);
  console.log(`seed ${random.seed}`);
  for (let round = 0; round < (LONG ? 5000 : 250); round++) {
    const dtype = random.pick(DTYPES);
    const headSize = dtype === "q8_0" ? 32 * random.between(1, 8) : random.pick([2, 6, 20, 64, 80, 96, 128, 192, 256]);
    const dimensions = random.chance(0.5) ? headSize : 2 * random.between(1, headSize / 2);
    const [heads, rows] = [random.between(1, 4), random.between(1, 5)];
    const scaling = randomScaling(random);
    const rotary: RotaryParameters = { dimensions, pairing: random.pick(PAIRINGS), base: random.pick([100, 10_000, 1e6]), ...(scaling && { scaling }) };
    const deltas = Int32Array.from({ length: rows }, () => random.pick([0, 1, -1, random.between(-300, 300), random.between(-131_072, 131_072), 2 ** 31 - 1]));
    const keys = encode(dtype, random.floats(rows * heads * headSize, random.pick([1, 1, 1e-4, 300])));
    const before = decode(dtype, keys).slice();
    const bytesBefore = new Uint8Array(keys.slice().buffer);
    rotateKeys(keys, { dtype, heads, headSize, rotary, delta: deltas });
    const after = decode(dtype, keys);
    const bytes = new Uint8Array(keys.buffer);
    for (let key = 0; key < rows * heads; key++) {
      const delta = deltas[Math.floor(key / heads)] as number;
      const [first, headBytes] = [key * headSize, bytes.length / rows / heads];
      if (delta === 0) {
        expect(bytes.subarray(key * headBytes, (key + 1) * headBytes)).toEqual(bytesBefore.subarray(key * headBytes, (key + 1) * headBytes));
        continue;
      }
      const exact = rotateTwin(before.subarray(first, first + headSize), rotary, delta);
      // Two libraries' powers differ in their last bit, which a long way makes longer.
      const angles = Math.abs(delta) * 4e-16 * Math.max(...exact.map(Math.abs));
      for (const [d, expected] of exact.entries()) {
        const block = Math.floor(d / 32) * 32;
        const turns = dtype === "q8_0" ? block < dimensions : d < dimensions;
        const error = Math.abs((after[first + d] ?? 0) - expected);
        const allowed = turns ? rounding(dtype, expected, exact.slice(block, block + 32)) + angles : 0;
        if (error > allowed) throw new Error(`round ${round}, ${dtype}, key ${key}, element ${d}: ${after[first + d]} for ${expected} at Δ = ${delta}`);
      }
    }
  }
});

test("one rotation from the birth position equals computing the key at its new position", () => {
  const random = new Random(53);
  for (const pairing of PAIRINGS) {
    for (const [birth, delta] of [[0, 5], [4000, -4000], [131_000, -129_000], [17, 65_536]] as const) {
      const rotary: RotaryParameters = { dimensions: 96, pairing, base: 500_000, scaling: { type: "llama3", factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 } };
      const raw = random.floats(128);
      const cached = Float32Array.from(rotateTwin(raw, rotary, birth));
      rotateKeys(cached, { dtype: "f32", heads: 1, headSize: 128, rotary, delta });
      const direct = rotateTwin(raw, rotary, birth + delta);
      // Once to store the key, once to turn it.
      for (const [d, expected] of direct.entries()) expect(Math.abs((cached[d] ?? 0) - expected)).toBeLessThan(2.5e-7);
    }
  }
});

test("a rotation keeps the length of a key, and with it a magnitude that is inside", () => {
  const random = new Random(54);
  const magnitude = 0.1 * Math.log(4) + 1;
  const rotary: RotaryParameters = { ...PLAIN, scaling: { type: "yarn", factor: 4, originalContextLength: 4096 } };
  for (let i = 0; i < 50; i++) {
    const key = random.floats(64, magnitude);
    const before = Math.hypot(...key);
    rotateKeys(key, { dtype: "f32", heads: 1, headSize: 64, rotary, delta: random.between(-100_000, 100_000) });
    expect(Math.abs(Math.hypot(...key) / before - 1)).toBeLessThan(2e-7);
  }
});

test("a thousand small rotations drift, one by their sum does not", () => {
  const keys = encode("bf16", new Random(55).floats(64));
  const [once, often] = [keys.slice() as Uint16Array, keys.slice() as Uint16Array];
  const options = { dtype: "bf16", heads: 1, headSize: 64, rotary: PLAIN } as const;
  rotateKeys(once, { ...options, delta: -1000 });
  for (let i = 0; i < 1000; i++) rotateKeys(often, { ...options, delta: -1 });
  const exact = rotateTwin(decode("bf16", keys), PLAIN, -1000);
  const distance = (turned: Uint16Array) => Math.hypot(...decode("bf16", turned).map((number, d) => number - (exact[d] ?? 0)));
  expect(distance(once) * 8).toBeLessThan(distance(often));
});

test("layers with bases of their own are calls of their own, on parts of one cache", () => {
  const random = new Random(56);
  const cache = random.floats(2 * 3 * 64); // [layer][row][head size]
  const before = cache.slice();
  const bases = [10_000, 1_000_000];
  for (const [layer, base] of bases.entries()) {
    rotateKeys(cache.subarray(layer * 192, (layer + 1) * 192), { dtype: "f32", heads: 1, headSize: 64, rotary: { ...PLAIN, base }, delta: 7 });
  }
  for (let key = 0; key < 6; key++) {
    const exact = rotateTwin(before.subarray(key * 64, (key + 1) * 64), { ...PLAIN, base: bases[Math.floor(key / 3)] as number }, 7);
    for (const [d, expected] of exact.entries()) expect(Math.abs((cache[key * 64 + d] ?? 0) - expected)).toBeLessThan(1e-7);
  }
});

test("memory of any kind and at any place is turned, and nothing beside it", () => {
  const numbers = new Random(57).floats(64);
  const expected = numbers.slice();
  const options = { heads: 1, headSize: 64, rotary: PLAIN, delta: -9 };
  rotateKeys(expected, { ...options, dtype: "f32" });
  const shared = new Float32Array(new SharedArrayBuffer(66 * 4), 4, 64);
  shared.set(numbers);
  rotateKeys(shared, { ...options, dtype: "f32" });
  expect(shared.slice()).toEqual(expected);
  expect([...new Float32Array(shared.buffer)].filter((_, i) => i === 0 || i === 65)).toEqual([0, 0]);
  // Blocks at an odd address.
  const blocks = quantize("Q8_0", numbers);
  const odd = new Uint8Array(200).fill(0xee);
  odd.set(blocks, 33);
  rotateKeys(odd.subarray(33, 33 + 68), { ...options, dtype: "q8_0" });
  rotateKeys(blocks, { ...options, dtype: "q8_0" });
  expect(odd.slice(33, 101)).toEqual(blocks);
  expect(odd.filter((byte) => byte === 0xee).length).toBeGreaterThanOrEqual(132);
  // The same memory twice: once as keys, once as what they move by.
  const both = new ArrayBuffer(64 * 4);
  new Float32Array(both).set(numbers);
  const view = new Int32Array(both, 0, 1);
  const [delta] = view;
  const alone = numbers.slice();
  rotateKeys(alone, { ...options, dtype: "f32", delta: Int32Array.of(delta ?? 0) });
  rotateKeys(new Float32Array(both), { ...options, dtype: "f32", delta: view });
  expect(new Float32Array(both)).toEqual(alone);
});

test("what is no number, or too large for a block's scale, spoils its own pairs and nothing else", () => {
  const options = { heads: 1, headSize: 64, rotary: { ...PLAIN, pairing: "interleaved" }, delta: 3 } as const;
  const plain = new Float32Array(64).fill(0.5);
  const spoilt = plain.slice();
  spoilt[5] = Number.NaN;
  rotateKeys(plain, { ...options, dtype: "f32" });
  rotateKeys(spoilt, { ...options, dtype: "f32" });
  expect([...spoilt.entries()].filter(([, number]) => Number.isNaN(number)).map(([d]) => d)).toEqual([4, 5]);
  expect(spoilt.filter((_, d) => d !== 4 && d !== 5)).toEqual(plain.filter((_, d) => d !== 4 && d !== 5));
  const blocks = quantize("Q8_0", new Float32Array(64).fill(0.5));
  const largest = blocks.slice();
  new DataView(largest.buffer).setUint16(0, 0x7bff, true); // 65,504: numbers of 8,319,008
  rotateKeys(largest, { ...options, dtype: "q8_0" });
  rotateKeys(blocks, { ...options, dtype: "q8_0" });
  expect([...dequantize("Q8_0", largest.slice(0, 34))].every(Number.isNaN)).toBe(true);
  expect(largest.slice(34)).toEqual(blocks.slice(34));
});
