export * from "./errors.ts";
export { deviceInfo, type DeviceInfo, naiveReplay, readModel, type ReplayProgram, type TinyModelOptions, writeTinyModel } from "./model.ts";
export { openRuntime } from "./open.ts";
export type * from "./runtime.ts";
export type * from "./step.ts";
