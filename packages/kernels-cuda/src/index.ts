export * from "./errors.ts";
export {
  type AttentionOptions,
  CellPages,
  type CellsOptions,
  Compute,
  type ComputeOptions,
  dequantize,
  matmul,
  type MatrixOptions,
  type NewCells,
  openCells,
  openCompute,
  PackedMatrix,
  packMatrix,
  quantize,
  segmentAttention,
  type Segments,
  type TensorType,
} from "./library.ts";
export { deviceInfo, type DeviceInfo, naiveReplay, readModel, type ReplayProgram, type TinyModelOptions, writeTinyModel } from "./model.ts";
export { openRuntime } from "./open.ts";
export { type KeyDtype, rotaryFrequencies, type RotaryParameters, type RotaryScaling, rotateKeys, type RotateKeysOptions } from "./rotation.ts";
export type * from "./runtime.ts";
export type * from "./step.ts";
