/** The six kinds of the whole stack; what the caller should do stands in ARCHITECTURE.md. */
export type ErrorKind = "invalid" | "unsupported" | "capacity" | "cancelled" | "data" | "internal";

/** HTTP status of a kind, unless a code has its own. */
export const STATUS_OF_KIND: Readonly<Record<ErrorKind, number>> = {
  invalid: 400,
  unsupported: 422,
  capacity: 503,
  cancelled: 499,
  data: 500,
  internal: 500,
};

interface CodeEntry {
  kind: ErrorKind;
  /** Where it is not the kind's. */
  status?: number;
  /** What it says, for docs/api.md; a test holds both together. */
  means: string;
}

/** Every code that this layer gives itself. Errors of the layers below keep their own kind, code and param. */
export const SERVER_ERROR_CODES = {
  json_invalid: { kind: "invalid", means: "the body is no JSON" },
  body_invalid: { kind: "invalid", means: "the body is no JSON object, or nested too deeply" },
  content_type_invalid: { kind: "invalid", means: "the body was not sent as `application/json`" },
  request_invalid: { kind: "invalid", means: "the HTTP request itself is malformed" },
  body_too_large: { kind: "invalid", status: 413, means: "the body exceeds the limit (16 MiB)" },
  field_missing: { kind: "invalid", means: "a required field is absent" },
  field_invalid: { kind: "invalid", means: "a field has a wrong type or a value outside its range" },
  field_unknown: { kind: "invalid", means: "an unknown key inside `cache` or another closed object" },
  field_misspelled: { kind: "invalid", means: "a top-level field that is nearly one of Palimpsest's own" },
  context_length_exceeded: { kind: "invalid", means: "the prompt does not leave room for a token in the model's context" },
  template_failed: { kind: "invalid", means: "the model's chat template refuses these messages" },
  invalid_api_key: { kind: "invalid", status: 401, means: "tenants are configured and the key is not one of theirs" },
  operator_key_required: { kind: "invalid", status: 403, means: "tenants are configured, and this state is for operators" },
  model_not_found: { kind: "invalid", status: 404, means: "`model` names neither the loaded model nor an alias" },
  route_not_found: { kind: "invalid", status: 404, means: "no such endpoint" },
  method_not_allowed: { kind: "invalid", status: 405, means: "the endpoint exists under another method" },
  unsupported: { kind: "unsupported", means: "a known field, value or endpoint that is not built yet" },
  model_loading: { kind: "capacity", means: "the model is still being loaded" },
  server_draining: { kind: "capacity", means: "the server is shutting down" },
  requests_exceeded: { kind: "capacity", status: 429, means: "as many requests as allowed are waiting or running" },
  client_closed: { kind: "cancelled", means: "the client closed the connection" },
  client_stalled: { kind: "cancelled", means: "the client took nothing from its stream for too long" },
  flag_invalid: { kind: "invalid", means: "a command-line flag is unknown, repeated, or has a wrong value" },
  port_busy: { kind: "capacity", means: "the port is taken; choose another with `--port`" },
  server_unreachable: { kind: "data", means: "a command line tool got no answer, or a refusal, from the server it was told to use" },
  model_load_failed: { kind: "data", means: "the model could not be loaded" },
  internal_error: { kind: "internal", means: "a defect of the server; its log has the cause" },
} as const satisfies Record<string, CodeEntry>;

export type ServerErrorCode = keyof typeof SERVER_ERROR_CODES;

export interface ErrorDetail {
  /** The field, with its index: `directives[2].target.tokens`. */
  param?: string | undefined;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** An error of the HTTP layer. `kind` and `code` are stable. */
export class ServerError extends Error {
  override readonly name = "ServerError";
  readonly kind: ErrorKind;
  readonly code: ServerErrorCode;
  readonly status: number;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ServerErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    const entry: CodeEntry = SERVER_ERROR_CODES[code];
    this.kind = entry.kind;
    this.code = code;
    this.status = entry.status ?? STATUS_OF_KIND[entry.kind];
    this.param = detail.param;
    this.retryAfterSeconds = detail.retryAfterSeconds;
  }
}

/** What every layer's error class carries, and all that may leave the server. */
export interface PublicError {
  kind: ErrorKind;
  code: string;
  status: number;
  message: string;
  param: string | null;
  /** Seconds, for kind `capacity`. */
  retryAfterSeconds: number | null;
}

const RETRY_AFTER_SECONDS = 1;

/** Codes of the layers below whose status is not their kind's. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = { queue_full: 429 };

/**
 * Brings anything thrown into public form. Errors of our layers (recognised by a kind of the six and a code) keep what they say; of a
 * defect only the code leaves the server, and what is no error of ours is an `internal_error`.
 */
export function publicError(thrown: unknown): PublicError {
  if (!isLayerError(thrown) || thrown.kind === "internal") {
    return {
      kind: "internal",
      code: isLayerError(thrown) ? thrown.code : "internal_error",
      status: 500,
      message: "the server met a defect of its own; its log has the cause. The request may be sent again",
      param: null,
      retryAfterSeconds: null,
    };
  }
  const retry = thrown.retryAfterSeconds ?? thrown.retryAfter;
  return {
    kind: thrown.kind,
    code: thrown.code,
    status: thrown.status ?? STATUS_OF_CODE[thrown.code] ?? STATUS_OF_KIND[thrown.kind],
    message: thrown.message,
    param: thrown.param ?? null,
    retryAfterSeconds: thrown.kind === "capacity" ? (retry ?? RETRY_AFTER_SECONDS) : null,
  };
}

interface LayerError extends Error {
  kind: ErrorKind;
  code: string;
  param?: string | undefined;
  status?: number | undefined;
  retryAfterSeconds?: number | undefined;
  retryAfter?: number | undefined;
}

function isLayerError(thrown: unknown): thrown is LayerError {
  if (!(thrown instanceof Error)) return false;
  const { kind, code } = thrown as Partial<LayerError>;
  return typeof kind === "string" && kind in STATUS_OF_KIND && typeof code === "string";
}

/** OpenAI's error object. `kind` is ours: the class of the error, for clients that want to act on it. */
export interface OpenAIErrorBody {
  error: { message: string; type: string; param: string | null; code: string; kind: ErrorKind };
}

/** OpenAI knows `invalid_request_error`; the other kinds go by their own names. */
export function openAIErrorBody(error: PublicError): OpenAIErrorBody {
  const type = error.kind === "invalid" ? "invalid_request_error" : error.kind;
  return { error: { message: error.message, type, param: error.param, code: error.code, kind: error.kind } };
}

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  405: "invalid_request_error",
  413: "request_too_large",
  422: "invalid_request_error",
  429: "rate_limit_error",
  503: "overloaded_error",
};

/** Anthropic's error object, for the paths under `/v1/messages`. */
export function anthropicErrorBody(error: PublicError): object {
  const type = ANTHROPIC_TYPES[error.status] ?? "api_error";
  return { type: "error", error: { type, message: error.message, kind: error.kind, code: error.code, param: error.param } };
}
