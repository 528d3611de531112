import type { ErrorKind } from "../errors.ts";

/** Every code of fetching and finding models, with its kind. docs/models.md has the same table; a test holds both together. */
export const MODEL_ERROR_CODES = {
  model_name_unknown: { kind: "invalid", means: "`--model` or `pull` names neither a model of the catalog, nor a file, nor an address" },
  model_file_missing: { kind: "invalid", means: "there is no such file" },
  model_address_invalid: { kind: "invalid", means: "the address is not `http` or `https`, or its `#` part is not `sha256=` and 64 hexadecimal digits" },
  model_address_refused: { kind: "invalid", means: "the server of the address has no such file, or does not give it to us" },
  model_checksum_differs: { kind: "data", means: "what was downloaded is not the file that was meant; it was thrown away" },
  model_file_wrong: { kind: "data", means: "what was downloaded is no GGUF file" },
  download_failed: { kind: "capacity", means: "the network or the package index failed; what has arrived is kept, so the same command continues" },
  disk_full: { kind: "capacity", means: "the cache folder has no room; `PALIMPSEST_HOME` names another" },
  cache_unwritable: { kind: "invalid", means: "the cache folder cannot be written; `PALIMPSEST_HOME` names another" },
  python_missing: { kind: "unsupported", means: "models of the catalog are fetched with `python3 -m pip`, which is not there" },
  download_cancelled: { kind: "cancelled", means: "the download was stopped" },
} as const satisfies Record<string, { kind: ErrorKind; means: string }>;

export type ModelErrorCode = keyof typeof MODEL_ERROR_CODES;

/** An error of finding or fetching a model. `kind` and `code` are stable; the message says what to do. */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly kind: ErrorKind;
  readonly code: ModelErrorCode;
  readonly param = "model";

  constructor(code: ModelErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = MODEL_ERROR_CODES[code].kind;
    this.code = code;
  }
}

/** The error of a write that failed. */
export function writeError(error: unknown, folder: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new ModelError("disk_full", `${folder} has no room for the model; free some, or set PALIMPSEST_HOME to a folder with more`, error);
  }
  if (code === "EACCES" || code === "EROFS" || code === "EPERM" || code === "ENOTDIR" || code === "EEXIST") {
    return new ModelError("cache_unwritable", `the cache folder ${folder} cannot be written (${code}); set PALIMPSEST_HOME to one that can`, error);
  }
  return error;
}
