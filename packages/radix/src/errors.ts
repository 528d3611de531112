/** The six kinds of error of the whole stack. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** Every code of this package with its kind. The README has the same table; a test holds both together. */
export const RADIX_ERROR_CODES = {
  path_invalid: "invalid",
  path_unknown: "invalid",
  namespace_invalid: "invalid",
  limit_invalid: "invalid",
  lease_released: "invalid",
  content_disabled: "unsupported",
  path_erased: "cancelled",
  nodes_exceeded: "capacity",
  namespaces_exceeded: "capacity",
  path_too_long: "capacity",
  pins_exceeded: "capacity",
  tree_damaged: "internal",
} as const satisfies Record<string, ErrorKind>;

export type RadixErrorCode = keyof typeof RADIX_ERROR_CODES;

/** An error of the tree. `kind` and `code` are stable; `param` names the argument when there is one. */
export class RadixError extends Error {
  override readonly name = "RadixError";
  readonly kind: ErrorKind;
  readonly code: RadixErrorCode;
  readonly param: string | undefined;

  constructor(code: RadixErrorCode, message: string, param?: string) {
    super(message);
    this.kind = RADIX_ERROR_CODES[code];
    this.code = code;
    this.param = param;
  }
}
