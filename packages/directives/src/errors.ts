/** The six kinds of the whole stack. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** Every code of this package with its kind. The README documents each; a test holds both together. */
export const DIRECTIVE_ERROR_CODES = {
  directive_invalid: "invalid",
  directive_unknown: "invalid",
  directive_limit: "invalid",
  directive_unsupported: "unsupported",
  boundary_invalid: "invalid",
  target_invalid: "invalid",
  target_overlap: "invalid",
  replacement_invalid: "invalid",
  context_length_exceeded: "invalid",
  text_syntax: "invalid",
  akv_invalid: "invalid",
  log_invalid: "invalid",
  verb_invalid: "invalid",
} as const satisfies Record<string, ErrorKind>;

export type DirectiveErrorCode = keyof typeof DIRECTIVE_ERROR_CODES;

/**
 * What is wrong with a directive: `param` names the field with its index (`directives[2].target.tokens`), the message says what was
 * expected, what came, and what to do. `kind` and `code` are stable.
 */
export class DirectiveError extends Error {
  override readonly name = "DirectiveError";
  readonly kind: ErrorKind;
  readonly code: DirectiveErrorCode;
  readonly param: string | undefined;

  constructor(code: DirectiveErrorCode, message: string, param?: string) {
    super(message);
    this.kind = DIRECTIVE_ERROR_CODES[code];
    this.code = code;
    this.param = param;
  }
}

/** A value as an error message shows it: JSON, cut to a readable length. */
export function shown(value: unknown): string {
  const text = typeof value === "bigint" ? `${value}` : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
