/** The six kinds of error of the whole stack. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** Every code of this package with its kind. The README has the same table; a test holds both together. */
export const KVSTORE_ERROR_CODES = {
  argument_invalid: "invalid",
  lease_released: "invalid",
  pages_exhausted: "capacity",
  budget_exceeded: "capacity",
  transfer_late: "cancelled",
  archive_closed: "cancelled",
  store_key_wrong: "invalid",
  tier_unusable: "data",
  pool_damaged: "internal",
  archive_damaged: "internal",
} as const satisfies Record<string, ErrorKind>;

export type KvstoreErrorCode = keyof typeof KVSTORE_ERROR_CODES;

/** An error of the store. `kind` and `code` are stable; `param` names the argument when there is one. */
export class KvstoreError extends Error {
  override readonly name = "KvstoreError";
  readonly kind: ErrorKind;
  readonly code: KvstoreErrorCode;
  readonly param: string | undefined;

  constructor(code: KvstoreErrorCode, message: string, param?: string) {
    super(message);
    this.kind = KVSTORE_ERROR_CODES[code];
    this.code = code;
    this.param = param;
  }
}
