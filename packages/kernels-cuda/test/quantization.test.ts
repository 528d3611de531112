import { expect, test } from "vitest";
import { dequantize, quantize, type TensorType } from "../src/index.ts";
import { fromBfloat, fromHalf, Random, toBfloat, toHalf } from "./twins.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const ROUNDS = LONG ? 5000 : 300;
const round = Math.fround;

/** Numbers and bytes of a block, and where its half-precision scales are. */
const LAYOUTS: Record<TensorType, { size: number; bytes: number; halves: number[] }> = {
  F32: { size: 1, bytes: 4, halves: [] },
  F16: { size: 1, bytes: 2, halves: [] },
  BF16: { size: 1, bytes: 2, halves: [] },
  Q4_0: { size: 32, bytes: 18, halves: [0] },
  Q4_1: { size: 32, bytes: 20, halves: [0, 2] },
  Q5_0: { size: 32, bytes: 22, halves: [0] },
  Q5_1: { size: 32, bytes: 24, halves: [0, 2] },
  Q8_0: { size: 32, bytes: 34, halves: [0] },
  Q4_K: { size: 256, bytes: 144, halves: [0, 2] },
  Q5_K: { size: 256, bytes: 176, halves: [0, 2] },
  Q6_K: { size: 256, bytes: 210, halves: [208] },
};
const TYPES = Object.keys(LAYOUTS) as TensorType[];

const half = (block: Uint8Array, at: number) => fromHalf((block[at] as number) | ((block[at + 1] as number) << 8));
const byte = (block: Uint8Array, at: number) => block[at] as number;
const signed = (block: Uint8Array, at: number) => (byte(block, at) << 24) >> 24;

/** Nibbles (and fifth bits) of blocks of 32: low halves are numbers 0 … 15. */
function levels32(block: Uint8Array, nibbles: number, fifths: number | null): number[] {
  return Array.from({ length: 32 }, (_, i) => {
    const nibble = i < 16 ? byte(block, nibbles + i) & 15 : byte(block, nibbles + i - 16) >> 4;
    const fifth = fifths === null ? 0 : (byte(block, fifths + (i >> 3)) >> (i & 7)) & 1;
    return nibble | (fifth << 4);
  });
}

/** Scale and minimum j of a K block: six bits each, the upper four in twelve bytes' spare bits. */
function scaleAndMinimum(block: Uint8Array, j: number): [number, number] {
  const at = (i: number) => byte(block, 4 + i);
  if (j < 4) return [at(j) & 63, at(j + 4) & 63];
  return [(at(j + 4) & 15) | ((at(j - 4) >> 6) << 4), (at(j + 4) >> 4) | ((at(j) >> 6) << 4)];
}

/** One block in f32, as ggml's `dequantize_row_*` computes it. */
const DECODERS: Record<TensorType, (block: Uint8Array) => number[]> = {
  F32: (block) => [new DataView(block.buffer, block.byteOffset).getFloat32(0, true)],
  F16: (block) => [half(block, 0)],
  BF16: (block) => [fromBfloat(byte(block, 0) | (byte(block, 1) << 8))],
  Q4_0: (block) => levels32(block, 2, null).map((level) => round((level - 8) * half(block, 0))),
  Q4_1: (block) => levels32(block, 4, null).map((level) => round(round(level * half(block, 0)) + half(block, 2))),
  Q5_0: (block) => levels32(block, 6, 2).map((level) => round((level - 16) * half(block, 0))),
  Q5_1: (block) => levels32(block, 8, 4).map((level) => round(round(level * half(block, 0)) + half(block, 2))),
  Q8_0: (block) => Array.from({ length: 32 }, (_, i) => round(signed(block, 2 + i) * half(block, 0))),
  Q4_K: (block) => kBlock(block, 16, null),
  Q5_K: (block) => kBlock(block, 48, 16),
  Q6_K: (block) =>
    Array.from({ length: 256 }, (_, i) => {
      const [side, quarter, l] = [Math.floor(i / 128), Math.floor((i % 128) / 32), i % 32];
      const low = byte(block, side * 64 + (quarter % 2) * 32 + l);
      const nibble = quarter < 2 ? low & 15 : low >> 4;
      const high = (byte(block, 128 + side * 32 + l) >> (2 * quarter)) & 3;
      return round(round(half(block, 208) * signed(block, 192 + Math.floor(i / 16))) * ((nibble | (high << 4)) - 32));
    }),
};

function kBlock(block: Uint8Array, nibbles: number, fifths: number | null): number[] {
  return Array.from({ length: 256 }, (_, i) => {
    const [part, l] = [Math.floor(i / 32), i % 32];
    const [scale, minimum] = scaleAndMinimum(block, part);
    const packed = byte(block, nibbles + Math.floor(part / 2) * 32 + l);
    const fifth = fifths === null ? 0 : (byte(block, fifths + l) >> part) & 1;
    const level = (part % 2 === 0 ? packed & 15 : packed >> 4) | (fifth << 4);
    return round(round(round(half(block, 0) * scale) * level) - round(half(block, 2) * minimum));
  });
}

test("any bytes decode as the scalar twin's, bit for bit", () => {
  const random = new Random(41);
  console.log(`seed ${random.seed}`);
  for (const type of TYPES) {
    const { size, bytes, halves } = LAYOUTS[type];
    for (let i = 0; i < ROUNDS; i++) {
      const blocks = random.between(1, size === 1 ? 40 : 3);
      const coded = Uint8Array.from({ length: blocks * bytes }, () => random.below(256));
      for (let block = 0; block < blocks; block++) {
        for (const at of halves) {
          const scale = toHalf(random.number() * random.pick([1e-6, 1e-3, 1, 2000]));
          coded.set([scale & 255, scale >> 8], block * bytes + at);
        }
      }
      const twin = Array.from({ length: blocks }, (_, block) => DECODERS[type](coded.subarray(block * bytes, (block + 1) * bytes))).flat();
      const ours = dequantize(type, coded);
      expect(ours.length).toBe(twin.length);
      const wrong = twin.findIndex((number, at) => !(Object.is(ours[at], round(number)) || ours[at] === number || (Number.isNaN(number) && Number.isNaN(ours[at]))));
      if (wrong >= 0) throw new Error(`${type}, number ${wrong}: ${ours[wrong]} for ${twin[wrong]}`);
    }
  }
});

const inverse = (scale: number) => (scale === 0 ? 0 : round(1 / scale));
const bytesOf = (bits: number) => [bits & 255, bits >> 8];
const packed = (level: number[]) => Array.from({ length: 16 }, (_, i) => ((level[i] as number) & 15) | (((level[i + 16] as number) & 15) << 4));
const fifths = (level: number[]) => [0, 1, 2, 3].map((at) => level.slice(8 * at, 8 * at + 8).reduce((bits, one, i) => bits | ((one >> 4) << i), 0));
const awayFromZero = (number: number) => Math.sign(number) * Math.floor(Math.abs(number) + 0.5);

/** The bytes that ggml's `quantize_row_*_ref` gives, step by step in f32. */
function encodeTwin(type: TensorType, values: Float32Array): number[] | null {
  const numbers = Array.from(values);
  const extreme = numbers.reduce((most, number) => (Math.abs(number) > Math.abs(most) ? number : most), 0);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const levels = (scale: number, offset: number, base: number, highest: number) =>
    numbers.map((number) => Math.min(highest, Math.trunc(round(round(round(number - base) * inverse(scale)) + offset))));
  switch (type) {
    case "F32":
      return [...new Uint8Array(values.slice().buffer)];
    case "F16":
      return numbers.flatMap((number) => bytesOf(toHalf(number)));
    case "BF16":
      return numbers.flatMap((number) => bytesOf(toBfloat(number)));
    case "Q8_0": {
      const scale = round(Math.abs(extreme) / 127);
      return [...bytesOf(toHalf(scale)), ...numbers.map((number) => awayFromZero(round(number * inverse(scale))) & 255)];
    }
    case "Q4_0": {
      const scale = round(extreme / -8);
      return [...bytesOf(toHalf(scale)), ...packed(levels(scale, 8.5, 0, 15))];
    }
    case "Q5_0": {
      const scale = round(extreme / -16);
      const level = levels(scale, 16.5, 0, 31);
      return [...bytesOf(toHalf(scale)), ...fifths(level), ...packed(level)];
    }
    case "Q4_1": {
      const scale = round(round(high - low) / 15);
      return [...bytesOf(toHalf(scale)), ...bytesOf(toHalf(low)), ...packed(levels(scale, 0.5, low, 15))];
    }
    case "Q5_1": {
      const scale = round(round(high - low) / 31);
      const level = levels(scale, 0.5, low, 31);
      return [...bytesOf(toHalf(scale)), ...bytesOf(toHalf(low)), ...fifths(level), ...packed(level)];
    }
    default:
      return null;
  }
}

test("types with one scale for 32 numbers get the bytes of the scalar twin", () => {
  const random = new Random(42);
  console.log(`seed ${random.seed}`);
  let compared = 0;
  for (const type of TYPES) {
    for (let i = 0; i < ROUNDS; i++) {
      const values = random.floats(LAYOUTS[type].size, random.pick([1e-3, 1, 100]));
      if (random.chance(0.05)) values.fill(0);
      const twin = encodeTwin(type, values);
      if (twin === null) continue;
      compared++;
      expect({ type, i, bytes: [...quantize(type, values)] }).toEqual({ type, i, bytes: twin });
    }
  }
  // All but the three K types.
  expect(compared).toBe(8 * ROUNDS);
});

/** Steps of a block's range that a number may be off: half of one, the scale's own rounding, and what a clipped extreme costs. */
const STEPS: Partial<Record<TensorType, { levels: number; steps: number }>> = {
  Q4_0: { levels: 16, steps: 1.05 },
  Q5_0: { levels: 32, steps: 1.05 },
  Q4_1: { levels: 15, steps: 0.6 },
  Q5_1: { levels: 31, steps: 0.6 },
  Q8_0: { levels: 254, steps: 0.6 },
  Q4_K: { levels: 15, steps: 0.6 },
  Q5_K: { levels: 31, steps: 0.6 },
  Q6_K: { levels: 64, steps: 1.25 },
};

test("what was encoded decodes to within its steps", () => {
  const random = new Random(43);
  for (const [type, { levels, steps }] of Object.entries(STEPS) as [TensorType, { levels: number; steps: number }][]) {
    let worst = 0;
    for (let i = 0; i < ROUNDS; i++) {
      const values = random.floats(2 * LAYOUTS[type].size);
      const decoded = dequantize(type, quantize(type, values));
      // −1 … 1 is the range of every block here, or nearly.
      for (const [at, value] of values.entries()) worst = Math.max(worst, Math.abs((decoded[at] as number) - value) / (2 / levels));
    }
    console.log(`${type}: ${worst.toFixed(2)} steps`);
    expect(worst).toBeLessThan(steps);
    expect(worst).toBeGreaterThan(0.2);
  }
});
