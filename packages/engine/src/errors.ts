/** The six kinds of error of the whole stack. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** Every code of this package with its kind. The README has the same table; a test holds both together. */
export const ENGINE_ERROR_CODES = {
  request_invalid: "invalid",
  limit_invalid: "invalid",
  context_length_exceeded: "invalid",
  groups_unsupported: "unsupported",
  tiers_unsupported: "unsupported",
  queue_full: "capacity",
  pages_exceeded: "capacity",
  request_cancelled: "cancelled",
  engine_disposed: "cancelled",
  step_failed: "internal",
  engine_damaged: "internal",
  tokenizer_unsupported: "unsupported",
  pre_tokenizer_unsupported: "unsupported",
  tokenizer_damaged: "data",
  token_invalid: "invalid",
  template_unsupported: "unsupported",
  template_reordered: "unsupported",
  messages_invalid: "invalid",
  content_unsupported: "unsupported",
} as const satisfies Record<string, ErrorKind>;

export type EngineErrorCode = keyof typeof ENGINE_ERROR_CODES;

/** An error of the engine. `kind` and `code` are stable; `param` names the field of the request when there is one. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly kind: ErrorKind;
  readonly code: EngineErrorCode;
  readonly param: string | undefined;

  constructor(code: EngineErrorCode, message: string, param?: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = ENGINE_ERROR_CODES[code];
    this.code = code;
    this.param = param;
  }
}
