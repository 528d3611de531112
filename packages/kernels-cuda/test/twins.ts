/** Scalar twins of the library face, in f64 and in the plainest way: they share nothing with the native part. */

import type { RotaryParameters } from "../src/index.ts";

/** xorshift32: the tests print its seed. */
export class Random {
  #state: number;

  constructor(readonly seed: number) {
    this.#state = Math.imul(seed, 0x9e37_79b9) | 1;
    for (let i = 0; i < 8; i++) this.#next();
  }

  #next(): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return this.#state >>> 0;
  }

  /** 0 … limit − 1 */
  below(limit: number): number {
    return Math.floor((this.#next() / 2 ** 32) * limit);
  }

  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(share: number): boolean {
    return this.#next() / 2 ** 32 < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }

  /** −1 … 1 */
  number(): number {
    return (this.#next() / 2 ** 31) - 1;
  }

  floats(count: number, scale = 1): Float32Array {
    return Float32Array.from({ length: count }, () => this.number() * scale);
  }

  shuffled(count: number): number[] {
    const order = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j] as number, order[i] as number];
    }
    return order;
  }
}

export function fromHalf(bits: number): number {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** To the nearest, ties to even. */
export function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (magnitude >= 65_520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 1e-40)));
  const steps = nearestEven(magnitude / 2 ** (exponent - 10));
  return sign | (((exponent + 14) << 10) + steps);
}

export function nearestEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
}

export function fromBfloat(bits: number): number {
  return new Float32Array(Uint32Array.of(bits << 16).buffer)[0] as number;
}

export function toBfloat(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0] as number;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Radians a position, by the formulas as the papers and reference implementations write them. */
export function frequenciesTwin(rotary: RotaryParameters): number[] {
  const { dimensions, base, scaling } = rotary;
  const plain = Array.from({ length: dimensions / 2 }, (_, i) => 1 / base ** ((2 * i) / dimensions) / (rotary.frequencyFactors?.[i] ?? 1));
  if (scaling === undefined) return plain;
  if (scaling.type === "linear") return plain.map((frequency) => frequency / scaling.factor);
  if (scaling.type === "llama3") {
    const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContextLength: original } = scaling;
    return plain.map((frequency) => {
      const wavelength = (2 * Math.PI) / frequency;
      if (wavelength < original / high) return frequency;
      if (wavelength > original / low) return frequency / factor;
      const smooth = (original / wavelength - low) / (high - low);
      return ((1 - smooth) * frequency) / factor + smooth * frequency;
    });
  }
  const { factor, originalContextLength: original, betaFast = 32, betaSlow = 1, extrapolation = 1 } = scaling;
  const correction = (turns: number) => (dimensions * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const low = Math.max(Math.floor(correction(betaFast)), 0);
  const high = Math.min(Math.ceil(correction(betaSlow)), dimensions - 1);
  return plain.map((frequency, i) => {
    const ramp = Math.min(1, Math.max(0, (i - low) / (high === low ? 0.001 : high - low)));
    const mask = (1 - ramp) * extrapolation;
    return (frequency / factor) * (1 - mask) + frequency * mask;
  });
}

/** R(position) · head: a new array. */
export function rotateTwin(head: ArrayLike<number>, rotary: RotaryParameters, position: number): number[] {
  const out = Array.from(head);
  const half = rotary.dimensions / 2;
  for (const [i, frequency] of frequenciesTwin(rotary).entries()) {
    const [a, b] = rotary.pairing === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + half];
    const [x, y] = [out[a] as number, out[b] as number];
    const [cosine, sine] = [Math.cos(position * frequency), Math.sin(position * frequency)];
    out[a] = x * cosine - y * sine;
    out[b] = x * sine + y * cosine;
  }
  return out;
}

export interface AttentionTwin {
  heads: number;
  kvHeads: number;
  headSize: number;
  rotary: RotaryParameters;
  scale: number;
  softCap?: number;
  window?: number;
  /** One logit a head. */
  sinks?: Float32Array;
}

/** One cell as it is stored: keys (rotated to `birth`) and values `[kvHead][headSize]`. */
export interface TwinCell {
  birth: number;
  /** Current position. */
  position: number;
  keys: ArrayLike<number>;
  values: ArrayLike<number>;
}

/** One row: `[head][headSize]` of softmax(scores) · values. Keys are turned on to where their cell stands now, one by one. */
export function attendTwin(shape: AttentionTwin, position: number, query: ArrayLike<number>, cells: readonly TwinCell[]): number[] {
  const { heads, kvHeads, headSize: size, window = Infinity } = shape;
  const read = cells.filter((cell) => cell.position > position - window);
  const part = (numbers: ArrayLike<number>, index: number) => Array.from(numbers).slice(index * size, (index + 1) * size);
  const keys = read.map((cell) =>
    Array.from({ length: kvHeads }, (_, head) => rotateTwin(part(cell.keys, head), shape.rotary, cell.position - cell.birth)),
  );
  const out: number[] = [];
  for (let head = 0; head < heads; head++) {
    const kv = Math.floor((head * kvHeads) / heads);
    const turned = rotateTwin(part(query, head), shape.rotary, position);
    const scores = keys.map((key) => {
      const score = shape.scale * (key[kv] as number[]).reduce((sum, number, d) => sum + number * (turned[d] as number), 0);
      return shape.softCap === undefined ? score : shape.softCap * Math.tanh(score / shape.softCap);
    });
    const sink = shape.sinks?.[head] ?? -Infinity;
    const highest = Math.max(sink, ...scores);
    const weights = scores.map((score) => Math.exp(score - highest));
    const total = weights.reduce((sum, weight) => sum + weight, Math.exp(sink - highest));
    for (let d = 0; d < size; d++) {
      out.push(read.reduce((sum, cell, i) => sum + (weights[i] as number) * (cell.values[kv * size + d] as number), 0) / total);
    }
  }
  return out;
}
