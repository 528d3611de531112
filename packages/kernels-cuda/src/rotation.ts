/** The rotation of cached keys, for a serving stack that takes only this. */

import { arrayOf, fieldsOf, finiteNumber, oneOf, wholeNumber } from "./arguments.ts";
import { KernelError } from "./errors.ts";
import { loadNative } from "./loader.ts";
import { calling } from "./native.ts";

/** How frequencies are stretched for a longer context. */
export type RotaryScaling =
  /** Every frequency divided by `factor`. */
  | { type: "linear"; factor: number }
  /**
   * Llama 3.1: with λ the wavelength of a pair and L the original context, λ > L / lowFrequencyFactor is divided by `factor`,
   * λ < L / highFrequencyFactor is kept, between both is blended by L / λ.
   */
  | { type: "llama3"; factor: number; lowFrequencyFactor: number; highFrequencyFactor: number; originalContextLength: number }
  /**
   * YaRN (arXiv 2309.00071, 3.2): pairs that turn more than `betaFast` (32) times over the original context are kept, less than
   * `betaSlow` (1) times divided by `factor`, between both blended by number. `extrapolation` (1): how much of the blend is used.
   */
  | { type: "yarn"; factor: number; originalContextLength: number; betaFast?: number; betaSlow?: number; extrapolation?: number };

/** The rotary embedding of one kind of layer. Layers with another base are another call. */
export interface RotaryParameters {
  /** Leading elements of a head that turn: even, at most the head. The rest has no position. */
  dimensions: number;
  /** `interleaved`: elements 2i and 2i + 1 turn together. `half-split`: i and i + dimensions / 2 ("neox"). */
  pairing: "interleaved" | "half-split";
  /** Pair i turns by base^(−2i / dimensions) radians a position. */
  base: number;
  scaling?: RotaryScaling;
  /** dimensions / 2 divisors of the frequencies, before the scaling (`rope_freqs.weight` of GGUF files). */
  frequencyFactors?: Float32Array;
}

/** How cached keys are stored: `f16` and `bf16` as 16-bit patterns, `q8_0` as GGUF blocks of 32 (an f16 scale, 32 signed bytes). */
export type KeyDtype = "f32" | "f16" | "bf16" | "q8_0";

export interface RotateKeysOptions {
  dtype: KeyDtype;
  /** Key heads of a row. */
  heads: number;
  /** Elements of a head; for `q8_0` a multiple of 32. */
  headSize: number;
  rotary: RotaryParameters;
  /** Positions to move by: one whole number for all rows, or one a row. */
  delta: number | Int32Array;
}

const KEY_CLASSES = { f32: "Float32Array", f16: "Uint16Array", bf16: "Uint16Array", q8_0: "Uint8Array" } as const;
const KEY_DTYPES = Object.keys(KEY_CLASSES) as KeyDtype[];
const BLOCK = 32;
const BLOCK_BYTES = 34;
/** Elements of a head that turn at most. */
const DIMENSIONS_MAX = 65_536;
const DELTA_MAX = 0x7fff_ffff;
const ROTARY_FIELDS = ["dimensions", "pairing", "base", "scaling", "frequencyFactors"] as const;

/**
 * Radians a position for each of dimensions / 2 pairs, in f64. Formulas: Su et al. 2104.09864, and those named at `RotaryScaling`.
 *
 * Errors: `argument_invalid` with `param` (`rotary.base`, …).
 */
export function rotaryFrequencies(rotary: RotaryParameters): Float64Array {
  return calling(() => loadNative().rotaryFrequencies(rotaryFields(rotary, DIMENSIONS_MAX)));
}

/**
 * Moves cached keys by Δ positions, in place: R(Δ)·R(p)·k = R(p + Δ)·k (Su et al. 2104.09864, 3.4.2).
 *
 * `keys` holds `[row][head][headSize]` numbers in `dtype`, over an ArrayBuffer or a SharedArrayBuffer that nobody else writes meanwhile.
 * Angles and products are f64, a key is rounded once; elements past `rotary.dimensions` and rows with Δ = 0 keep their bits (in `q8_0`
 * what shares a block with turning elements is coded anew). The rotation is pure: a magnitude that is in the key already (YaRN) stays,
 * and the key keeps its length. Roundings add up when a key moves again and again: keep the birth position, and turn a copy of the key
 * as it was born once by the sum.
 *
 * Runs on the calling thread: about 0.5 ns (f32) to 2.5 ns (q8_0) a number. Give long caches part by part, or from a worker thread.
 *
 * Errors: `argument_invalid` with `param` (`keys`, `dtype`, `heads`, `headSize`, `delta`, `rotary.dimensions`, …); nothing was written.
 */
export function rotateKeys(keys: Float32Array | Uint16Array | Uint8Array, options: RotateKeysOptions): void {
  fieldsOf("options", options, ["dtype", "heads", "headSize", "rotary", "delta"]);
  const dtype = oneOf("dtype", options.dtype, KEY_DTYPES);
  arrayOf("keys", keys, KEY_CLASSES[dtype]);
  const heads = wholeNumber("heads", options.heads, 1);
  const headSize = wholeNumber("headSize", options.headSize, 1);
  const headBytes = dtype === "q8_0" ? Math.ceil(headSize / BLOCK) * BLOCK_BYTES : headSize * keys.BYTES_PER_ELEMENT;
  const rotary = rotaryFields(options.rotary, Math.min(headSize, DIMENSIONS_MAX));
  const { delta } = options;
  const deltas =
    typeof delta === "number"
      ? new Int32Array(Math.ceil(keys.byteLength / (heads * headBytes))).fill(wholeNumber("delta", delta, -DELTA_MAX, DELTA_MAX))
      : arrayOf("delta", delta, "Int32Array");
  const bytes = new Uint8Array(keys.buffer, keys.byteOffset, keys.byteLength);
  calling(() => loadNative().rotateKeys(bytes, dtype, heads, headSize, rotary, deltas));
}

/** Rotary parameters as the native part takes them; at most `dimensionsMax` elements turn. Errors: `argument_invalid`. */
export function rotaryFields(rotary: RotaryParameters, dimensionsMax: number): object {
  fieldsOf("rotary", rotary, ROTARY_FIELDS);
  const dimensions = wholeNumber("rotary.dimensions", rotary.dimensions, 2, dimensionsMax);
  if (dimensions % 2 !== 0) throw new KernelError("argument_invalid", `an even number is expected, ${dimensions} came`, "rotary.dimensions");
  const { frequencyFactors } = rotary;
  return {
    dimensions,
    interleaved: oneOf("rotary.pairing", rotary.pairing, ["interleaved", "half-split"]) === "interleaved",
    base: finiteNumber("rotary.base", rotary.base, 0),
    ...(frequencyFactors !== undefined && { factors: arrayOf("rotary.frequencyFactors", frequencyFactors, "Float32Array") }),
    ...stretch(rotary.scaling),
  };
}

/** Numbers in the order of `Stretch` in crates/kernels/src/rotary.rs. */
const SCALING_FIELDS = {
  linear: ["factor"],
  llama3: ["factor", "lowFrequencyFactor", "highFrequencyFactor", "originalContextLength"],
  yarn: ["factor", "betaFast", "betaSlow", "originalContextLength", "extrapolation"],
} as const;

const SCALING_DEFAULTS: Readonly<Record<string, number>> = { betaFast: 32, betaSlow: 1, extrapolation: 1 };

function stretch(scaling: RotaryScaling | undefined): { stretch: string; numbers: Float64Array } {
  if (scaling === undefined) return { stretch: "none", numbers: new Float64Array(0) };
  const fields = fieldsOf("rotary.scaling", scaling as Record<string, unknown>, ["type", ...Object.values(SCALING_FIELDS).flat()]);
  const type = oneOf("rotary.scaling.type", fields["type"], ["linear", "llama3", "yarn"]);
  fieldsOf("rotary.scaling", fields, ["type", ...SCALING_FIELDS[type]]);
  const number = (name: string) => finiteNumber(`rotary.scaling.${name}`, fields[name] ?? SCALING_DEFAULTS[name], 0);
  return { stretch: type, numbers: Float64Array.from(SCALING_FIELDS[type], number) };
}
