import { KernelError } from "./errors.ts";
import type { Sampler, Step } from "./step.ts";

/** Class of each field. Ranges, lengths and offsets are checked in Rust, before a byte is written. */
const CLASSES = {
  token: "Int32Array",
  position: "Int32Array",
  cell: "Int32Array",
  store: "Uint8Array",
  rowOf: "Int32Array",
  viewOf: "Int32Array",
  runPage: "Int32Array",
  runFirst: "Int32Array",
  runLength: "Int32Array",
  runBirth: "Int32Array",
  runShift: "Int32Array",
  pages: "Int32Array",
  outRow: "Int32Array",
  outTarget: "Int32Array",
  outTop: "Uint8Array",
  outSampler: "Int32Array",
} as const satisfies Partial<Record<keyof Step, string>>;

const OPTIONAL_CLASSES = {
  biasOf: "Int32Array",
  biasId: "Int32Array",
  biasValue: "Float32Array",
  maskOf: "Int32Array",
  mask: "Uint32Array",
  logits: "Float32Array",
} as const satisfies Partial<Record<keyof Step, string>>;

const TOP_K_MAX = 0xffff_ffff;
const SEED_LIMIT = 1n << 64n;

/** A step as the native part takes it. Errors: `step_invalid` for what is no typed array of the right class, and for samplers. */
export function checkStep(step: Step, cancel: Int32Array): object {
  const fields: Record<string, unknown> = {};
  for (const [name, expected] of Object.entries(CLASSES)) fields[name] = checkClass(name, step[name as keyof Step], expected);
  for (const [name, expected] of Object.entries(OPTIONAL_CLASSES)) {
    const value = step[name as keyof Step];
    if (value !== undefined) fields[name] = checkClass(name, value, expected);
  }
  if (step.logits) fields["logits"] = step.logits.length;
  if (!Array.isArray(step.samplers)) fail("samplers", "an array", step.samplers);
  fields["samplers"] = Float64Array.from(step.samplers.flatMap(samplerNumbers));
  fields["seeds"] = BigUint64Array.from(step.samplers.map((sampler) => sampler.seed));
  checkClass("cancel", cancel, "Int32Array");
  if (!(cancel.buffer instanceof SharedArrayBuffer)) fail("cancel", "an Int32Array over a SharedArrayBuffer", "one over an ArrayBuffer");
  return fields;
}

function samplerNumbers(sampler: Sampler, index: number): number[] {
  const at = (field: string) => `samplers[${index}].${field}`;
  if (typeof sampler !== "object" || sampler === null) fail(`samplers[${index}]`, "an object", sampler);
  if (!(typeof sampler.temperature === "number" && sampler.temperature >= 0 && sampler.temperature < Infinity)) {
    fail(at("temperature"), "a finite number from 0 on", sampler.temperature);
  }
  if (!(Number.isInteger(sampler.topK) && sampler.topK >= 0 && sampler.topK <= TOP_K_MAX)) {
    fail(at("topK"), "a whole number from 0 on", sampler.topK);
  }
  for (const field of ["topP", "minP"] as const) {
    const share = sampler[field];
    if (!(typeof share === "number" && share >= 0 && share <= 1)) fail(at(field), "a number from 0 to 1", share);
  }
  if (!(Number.isSafeInteger(sampler.draw) && sampler.draw >= 0)) fail(at("draw"), "a whole number from 0 on", sampler.draw);
  if (!(typeof sampler.seed === "bigint" && sampler.seed >= 0n && sampler.seed < SEED_LIMIT)) {
    fail(at("seed"), "a bigint from 0 to 2^64 − 1", sampler.seed);
  }
  return [sampler.temperature, sampler.topK, sampler.topP, sampler.minP, sampler.draw];
}

function checkClass(name: string, value: unknown, expected: string): unknown {
  const came = Object.prototype.toString.call(value).slice("[object ".length, -1);
  if (came !== expected) fail(name, `an ${expected}`, came);
  return value;
}

function fail(param: string, expected: string, came: unknown): never {
  throw new KernelError("step_invalid", `${expected} is expected, ${String(came)} came`, param);
}
