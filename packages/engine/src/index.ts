export { TextAssembly, type AssembledText, type TokenBytes } from "./assembly.ts";
export { openArchive, openWith, type TierOptions } from "./archive.ts";
export { Engine, type EngineOptions, type LogitsOutput } from "./engine.ts";
export * from "./errors.ts";
export { ENGINE_LIMITS, type EngineLimits } from "./limits.ts";
export type { StepRates } from "./rates.ts";
export * from "./template/index.ts";
export * from "./tokenizer/index.ts";
export type * from "./types.ts";
// What a server needs to say of the compute layer; it imports the engine alone.
export type { CellArchive } from "@palimpsest/kvstore";
export { deviceInfo, openRuntime, readModel } from "@palimpsest/kernels-cuda";
export type { CellDtype, KernelLevel, ModelInfo, Runtime, RuntimeOptions, TokenizerData } from "@palimpsest/kernels-cuda";
