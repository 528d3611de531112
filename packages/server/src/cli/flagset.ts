import type { Flag } from "./flags.ts";

const CELL_DTYPES = ["f32", "f16", "q8_0"] as const;
const KERNELS = ["auto", "avx512", "avx-vnni", "avx2", "neon", "scalar", "reference", "cuda"] as const;

/** Flags that decide what is loaded. */
export const MODEL_FLAGS: readonly Flag[] = [
  { kind: "text", name: "model", value: "PATH|NAME|URL", help: "a GGUF file, a name of `palimpsest models`, or an address", fallback: "smollm2-135m" },
  { kind: "whole", name: "ctx", value: "N", min: 1, max: 2 ** 31 - 1, help: "context length", fallback: "the model's" },
  { kind: "whole", name: "pages", value: "N", min: 1, max: 2 ** 31 - 1, help: "pages of cache" },
  { kind: "bytes", name: "cache-mem", value: "SIZE", help: "memory of the cache: 2GiB, or 2GB, which is 2·10⁹ bytes", fallback: "half of the free memory, at most 4 GiB" },
  { kind: "bytes", name: "cache-host", value: "SIZE", help: "host memory for cells that leave the cache, such as 8GiB", fallback: "none" },
  { kind: "text", name: "cache-disk", value: "DIR", help: "folder for cells that leave the cache: encrypted, kept for the next start, for one server" },
  { kind: "bytes", name: "cache-disk-size", value: "SIZE", help: "most bytes of cells in that folder", fallback: "16GiB" },
  { kind: "text", name: "cache-key", value: "FILE", help: "its key, made where it is not there; keep it elsewhere to keep the folder unreadable", fallback: "store.key in the folder" },
  { kind: "whole", name: "page-size", value: "N", min: 1, max: 4096, help: "cells in a page", fallback: "16" },
  {
    kind: "choice",
    name: "cache-dtype",
    values: CELL_DTYPES,
    help: "how keys and values are kept; q8_0 takes 53 % of the memory of f16",
    fallback: "f16",
  },
  {
    kind: "choice",
    name: "kernels",
    values: KERNELS,
    unbuilt: { cuda: "the CUDA level is not built yet; use auto" },
    help: "level of the compute kernels",
    fallback: "auto",
  },
  { kind: "whole", name: "threads", value: "N", min: 1, max: 1024, help: "compute threads", fallback: "the cores of this machine" },
  { kind: "text", name: "verbs", value: "NAME", repeated: true, help: "an npm package, or its path, with further verbs for directives; may be repeated" },
  { kind: "text", name: "alias", value: "NAME", repeated: true, help: "a further name of the model; may be repeated" },
];

export const SERVE_FLAGS: readonly Flag[] = [
  ...MODEL_FLAGS,
  { kind: "text", name: "host", value: "HOST", help: "address to listen on", fallback: "127.0.0.1" },
  { kind: "whole", name: "port", value: "N", min: 0, max: 65_535, help: "port to listen on; 0 takes a free one and prints it", fallback: "8080" },
  { kind: "text", name: "tenants", value: "FILE", help: "JSON of tenants and their API keys; without it any key is accepted" },
  { kind: "text", name: "cors", value: "ORIGIN", help: "origin that browsers may call from; * is any" },
  { kind: "choice", name: "log-level", values: ["fatal", "error", "warn", "info", "debug", "trace", "silent"], help: "JSON lines on standard error", fallback: "warn" },
  { kind: "whole", name: "drain-s", value: "N", min: 0, max: 86_400, help: "seconds that running answers may take after SIGTERM", fallback: "30" },
];

export const HELP_FLAG: Flag = { kind: "switch", name: "help", help: "this text" };

const URL_FLAG: Flag = { kind: "text", name: "url", value: "URL", help: "a running server; without it one is started for this command" };

export const CHAT_FLAGS: readonly Flag[] = [
  URL_FLAG,
  { kind: "text", name: "system", value: "TEXT", help: "a system message to begin with" },
  { kind: "whole", name: "max-tokens", value: "N", min: 1, max: 2 ** 31 - 1, help: "most tokens of an answer", fallback: "512" },
  { kind: "text", name: "temperature", value: "T", help: "0 to 2", fallback: "0.7" },
  ...MODEL_FLAGS,
];

export const PLAN_FLAGS: readonly Flag[] = [URL_FLAG, ...MODEL_FLAGS];
