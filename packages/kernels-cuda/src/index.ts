export * from "./errors.ts";
export type * from "./runtime.ts";
export type * from "./step.ts";
