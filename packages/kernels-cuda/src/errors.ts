/** The six kinds of the whole stack; what the caller should do stands in ARCHITECTURE.md. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** Every code of this package with its kind. The same table exists in Rust (crates/kernels/src/error.rs); a test holds both together. */
export const KERNEL_ERROR_CODES = {
  step_invalid: "invalid",
  argument_invalid: "invalid",
  model_file_damaged: "data",
  model_file_unreadable: "data",
  model_format_unsupported: "unsupported",
  architecture_unsupported: "unsupported",
  tensor_type_unsupported: "unsupported",
  rotary_unsupported: "unsupported",
  backend_unsupported: "unsupported",
  cells_exceed_memory: "capacity",
  step_cancelled: "cancelled",
  runtime_disposed: "cancelled",
  native_panic: "internal",
} as const satisfies Record<string, ErrorKind>;

export type KernelErrorCode = keyof typeof KERNEL_ERROR_CODES;

/** An error of the compute layer. `kind` and `code` are stable; `param` names the argument or field when there is one. */
export class KernelError extends Error {
  override readonly name = "KernelError";
  readonly kind: ErrorKind;
  readonly code: KernelErrorCode;
  readonly param: string | undefined;

  constructor(code: KernelErrorCode, message: string, param?: string) {
    super(message);
    this.kind = KERNEL_ERROR_CODES[code];
    this.code = code;
    this.param = param;
  }
}
