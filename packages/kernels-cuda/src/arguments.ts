import { KernelError, type KernelErrorCode } from "./errors.ts";

const WHOLE_MAX = 0x7fff_ffff;

/** A whole number from `lowest` to `highest` (at most what 31 bits hold), or `argument_invalid`. */
export function wholeNumber(param: string, value: unknown, lowest: number, highest = WHOLE_MAX): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= lowest && value <= highest) return value;
  return refuse(param, highest === WHOLE_MAX ? `a whole number from ${lowest} on` : `a whole number from ${lowest} to ${highest}`, value);
}

/** A number that f32 holds, above `below`, or `argument_invalid`. */
export function finiteNumber(param: string, value: unknown, below = -Infinity): number {
  if (typeof value === "number" && Number.isFinite(Math.fround(value)) && value > below) return value;
  return refuse(param, below === -Infinity ? "a finite number" : `a finite number above ${below}`, value);
}

/** One of `names`, or `argument_invalid`. */
export function oneOf<T extends string>(param: string, value: unknown, names: readonly T[]): T {
  return names.find((name) => name === value) ?? refuse(param, `one of ${names.join(", ")}`, value);
}

/** A text; which texts are known is checked in Rust. */
export function textOf(param: string, value: unknown): string {
  return typeof value === "string" ? value : refuse(param, "a text", value);
}

export function booleanOf(param: string, value: unknown): boolean {
  return typeof value === "boolean" ? value : refuse(param, "true or false", value);
}

/** An object with no other fields than `names`, or `argument_invalid`: a misspelt option is no option. */
export function fieldsOf<T extends object>(param: string, value: T, names: readonly (keyof T & string)[]): T {
  if (typeof value !== "object" || value === null) return refuse(param, "an object", value);
  for (const name of Object.keys(value)) {
    if (!names.includes(name as keyof T & string)) refuse(param === "options" ? name : `${param}.${name}`, `one of ${names.join(", ")}`, `"${name}"`);
  }
  return value;
}

/** The class of a typed array in any realm, undefined for everything else: no object can pretend to have it. */
const classOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)?.get as (this: unknown) => string | undefined;

/** A typed array of a class whose memory is still there, or an error of `code`. Lengths are checked in Rust. */
export function arrayOf<T>(param: string, value: T, expected: string, code: KernelErrorCode = "argument_invalid"): T {
  const came = classOf.call(value);
  if (came !== expected) return refuse(param, `a ${expected}`, came === undefined ? describe(value) : `a ${came}`, code);
  if (isDetached(value as ArrayBufferView)) return refuse(param, `a ${expected} with its memory`, "one whose buffer was transferred", code);
  return value;
}

/** Only an empty array can be one without memory. */
function isDetached(array: ArrayBufferView): boolean {
  if (array.byteLength > 0) return false;
  try {
    return new Uint8Array(array.buffer).length < 0;
  } catch {
    return true;
  }
}

function describe(value: unknown): string {
  return value === null || (typeof value !== "object" && typeof value !== "function") ? String(value) : Object.prototype.toString.call(value);
}

function refuse(param: string, expected: string, came: unknown, code: KernelErrorCode = "argument_invalid"): never {
  throw new KernelError(code, `${expected} is expected, ${typeof came === "string" ? came : describe(came)} came`, param);
}
