import { freemem } from "node:os";
import type { Registry } from "@palimpsest/directives";
import { openArchive, openRuntime, readModel, type CellArchive, type CellDtype, type KernelLevel, type ModelInfo, type Runtime } from "@palimpsest/engine";
import { contextOf, serviceOf } from "./assemble.ts";
import { ServerError } from "./errors.ts";
import { sha256OfFile } from "./models/checksum.ts";
import type { Service } from "./service.ts";

/** What to load. Absent: the defaults of the command line. */
export interface LoadOptions {
  /** A GGUF file. */
  path: string;
  /** Name of the model in answers. */
  id: string;
  aliases?: readonly string[] | undefined;
  contextLength?: number | undefined;
  pages?: number | undefined;
  cacheBytes?: number | undefined;
  pageSize?: number | undefined;
  cacheDtype?: CellDtype | undefined;
  kernels?: KernelLevel | "auto" | undefined;
  threads?: number | undefined;
  /** Bytes of host memory for cells that leave the pool. Absent: none. */
  hostBytes?: number | undefined;
  /** A folder for them, which survives a restart. */
  disk?: { path: string; bytesMax: number; keyFile?: string | undefined } | undefined;
  /** Told of errors of the tiers, which cost cells and nothing else. */
  onTierError?: ((error: unknown) => void) | undefined;
  /** Verbs of directives. Absent: the standard ones. */
  registry?: Registry | undefined;
}

const CACHE_DTYPE = "f16";
const PAGE_SIZE = 16;
const CACHE_BYTES_MAX = 4 * 1024 ** 3;

/** Bytes of one key head's keys and values in one page of one layer; q8_0 as the README of kernels-cuda describes it. */
const HEAD_PAGE_BYTES: Readonly<Record<CellDtype, (headSize: number, pageSize: number) => number>> = {
  f32: (headSize, pageSize) => 2 * 4 * headSize * pageSize,
  f16: (headSize, pageSize) => 2 * 2 * headSize * pageSize,
  q8_0: (headSize, pageSize) =>
    up(headSize, 4) * pageSize + up(headSize, 16) * up(pageSize, 4) + 2 * 2 * Math.ceil(headSize / 32) * pageSize,
};

const up = (number: number, step: number) => Math.ceil(number / step) * step;

/** Opens a model with its cache. `onProgress` is called with 0 … 1. Errors are those of the compute layer and the tokenizer. */
export async function loadService(options: LoadOptions, onProgress: (fraction: number) => void = () => {}): Promise<Service> {
  const { info, tokenizer } = await readModel(options.path);
  // Before the weights are read: a wrong flag should not cost the wait for them.
  contextOf(info, options.contextLength);
  const cacheDtype = options.cacheDtype ?? CACHE_DTYPE;
  const pageSize = options.pageSize ?? PAGE_SIZE;
  const runtime = await openRuntime(options.path, {
    kernels: options.kernels ?? "auto",
    cacheDtype,
    pageSize,
    pages: options.pages ?? pagesFor(info, cacheDtype, pageSize, options.cacheBytes ?? defaultCacheBytes()),
    ...(options.threads === undefined ? {} : { threads: options.threads }),
    onProgress,
  });
  let archive: CellArchive | undefined;
  try {
    archive = await archiveFor(runtime, options);
    // Cells on a disk may be those of another file with the same name.
    const modelId = options.disk === undefined ? undefined : await sha256OfFile(options.path);
    const { id, aliases, contextLength, registry } = options;
    return serviceOf(runtime, tokenizer, { id, aliases, contextLength, registry, archive, modelId });
  } catch (error) {
    await archive?.close();
    await runtime.dispose();
    throw error;
  }
}

async function archiveFor(runtime: Runtime, { hostBytes, disk, onTierError }: LoadOptions): Promise<CellArchive | undefined> {
  if (hostBytes === undefined && disk === undefined) return undefined;
  return openArchive(runtime, { hostBytes, disk, ...(onTierError === undefined ? {} : { onError: onTierError }) });
}

const defaultCacheBytes = () => Math.min(CACHE_BYTES_MAX, Math.floor(freemem() / 2));

function pagesFor(info: ModelInfo, dtype: CellDtype, pageSize: number, cacheBytes: number): number {
  const pageBytes = info.layers * info.kvHeads * HEAD_PAGE_BYTES[dtype](info.headSize, pageSize);
  const pages = Math.floor(cacheBytes / pageBytes);
  if (pages >= 1) return Math.min(pages, 2 ** 31 - 1);
  throw new ServerError("flag_invalid", `--cache-mem: one page takes ${pageBytes} bytes, ${cacheBytes} are allowed`, { param: "--cache-mem" });
}
