// A stack with a cache of its own, f16 keys [cell][head][size] of one layer: a span goes, and what follows moves up by −n.
import { dequantize, rotateKeys } from "@palimpsest/kernels-cuda";

const [heads, headSize, row] = [2, 64, 2 * 64];
const options = { dtype: "f16", heads, headSize, rotary: { dimensions: 64, pairing: "half-split", base: 10_000 } } as const;

/** Keys of the same token at positions 0 … cells − 1, as a prefill would have left them. */
function prefilled(cells: number): Uint16Array {
  const keys = new Uint16Array(cells * row).fill(0x3c00); // 1.0
  rotateKeys(keys, { ...options, delta: Int32Array.from({ length: cells }, (_, cell) => cell) });
  return keys;
}

function removeSpan(keys: Uint16Array, first: number, count: number): Uint16Array {
  const left = keys.copyWithin(first * row, (first + count) * row).subarray(0, keys.length - count * row);
  rotateKeys(left.subarray(first * row), { ...options, delta: -count });
  return left;
}

const floats = (keys: Uint16Array) => dequantize("F16", new Uint8Array(keys.buffer, keys.byteOffset, keys.byteLength));
const [edited, fresh] = [floats(removeSpan(prefilled(100), 10, 30)), floats(prefilled(70))];
const difference = Math.max(...edited.map((number, i) => Math.abs(number - (fresh[i] ?? 0))));
console.log(`${edited.length / row} cells left, none further from a fresh prefill than two roundings of f16: ${difference < 2 ** -9}`);
