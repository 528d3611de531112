export * from "./errors.ts";
export * from "./tokenizer/index.ts";
export type * from "./types.ts";
// What a server needs to say of the compute layer; it imports the engine alone.
export type { CellDtype, KernelLevel, ModelInfo, Runtime, RuntimeOptions } from "@palimpsest/kernels-cuda";
