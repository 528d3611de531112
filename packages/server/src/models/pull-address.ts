import { createHash } from "node:crypto";
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { checkIsGguf, sha256OfFile } from "./checksum.ts";
import { ModelError, writeError } from "./errors.ts";
import type { OnProgress } from "./progress.ts";

/** An address to fetch a model from. */
export interface ModelAddress {
  url: string;
  /** Expected SHA-256, from `#sha256=…`. */
  sha256: string | null;
  /** Name of its file in the cache folder: the last part of the address, and a part of the address's own sum to keep namesakes apart. */
  file: string;
}

export interface PullAddressOptions {
  onProgress?: OnProgress | undefined;
  signal?: AbortSignal | undefined;
  /** Attempts in a row that bring nothing before the download fails. */
  attemptsMax?: number;
  /** Wait before the second attempt; doubles with each further one. */
  retryMs?: number;
}

/** What is known of a download that has begun, beside its partial file. */
interface PartialState {
  /** ETag or Last-Modified: says whether the rest still belongs to what is there. */
  validator: string | null;
  total: number | null;
}

/** @throws ModelError `model_address_invalid` */
export function parseAddress(text: string): ModelAddress {
  let url: URL;
  let pathname: string;
  try {
    url = new URL(text);
    pathname = decodeURIComponent(url.pathname);
  } catch (error) {
    throw new ModelError("model_address_invalid", `${text} is no address`, error);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new ModelError("model_address_invalid", `${text}: models are fetched over http or https, not ${url.protocol.slice(0, -1)}`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new ModelError("model_address_invalid", `the address of ${url.host}${url.pathname} names a user; addresses with a login are not supported`);
  }
  const fragment = url.hash;
  const sha256 = /^#sha256=([0-9a-f]{64})$/i.exec(fragment)?.[1]?.toLowerCase() ?? null;
  if (fragment !== "" && sha256 === null) {
    throw new ModelError("model_address_invalid", `the part of the address after # must be sha256= and 64 hexadecimal digits; got ${fragment}`);
  }
  url.hash = "";
  const name = path.posix.basename(pathname).replace(/[^\w.+-]/g, "_") || "model.gguf";
  const sum = createHash("sha256").update(url.href).digest("hex").slice(0, 8);
  return { url: url.href, sha256, file: `${name.replace(/\.gguf$/i, "")}.${sum}.gguf` };
}

/**
 * Fetches an address into `target`. What has arrived is kept beside it, and the rest is asked for, after a broken connection as well as
 * by the next call. Without `#sha256=` only the length can be checked.
 *
 * @throws ModelError `download_failed`, `model_address_refused`, `model_checksum_differs`, `model_file_wrong`, `disk_full`, `download_cancelled`
 */
export async function pullAddress(address: ModelAddress, target: string, options: PullAddressOptions = {}): Promise<void> {
  const { attemptsMax = 5, retryMs = 500, signal } = options;
  const partial = `${target}.partial`;
  for (let failures = 0; ; ) {
    const before = await sizeOf(partial);
    try {
      if (failures > 0) await sleep(retryMs * 2 ** (failures - 1), undefined, signal === undefined ? {} : { signal });
      await fetchRest(address, partial, options);
      break;
    } catch (error) {
      if (signal?.aborted) throw new ModelError("download_cancelled", "the download was stopped; the same command continues it", error);
      const known = writeError(error, path.dirname(target));
      if (known instanceof ModelError) throw known;
      failures = (await sizeOf(partial)) > before ? 1 : failures + 1;
      if (failures >= attemptsMax) throw unreachable(address, error, await sizeOf(partial));
    }
  }
  await checkWhole(address, partial, options.onProgress);
  await rename(partial, target);
  await rm(`${partial}.json`, { force: true });
}

/** One request for what is missing. Returns when the file is whole; throws a ModelError where another attempt is of no use. */
async function fetchRest(address: ModelAddress, partial: string, options: PullAddressOptions): Promise<void> {
  const state = await readState(partial);
  // Without a validator nobody can tell whether the rest belongs to what is there, unless the sum will.
  const resumable = state !== null && (state.validator !== null || address.sha256 !== null);
  const have = resumable ? await sizeOf(partial) : 0;
  if (have > 0 && have === state?.total) return;
  const headers: Record<string, string> = { "accept-encoding": "identity" };
  if (have > 0) {
    headers["range"] = `bytes=${have}-`;
    if (state?.validator) headers["if-range"] = state.validator;
  }
  const response = await fetch(address.url, { headers, ...(options.signal === undefined ? {} : { signal: options.signal }) });
  const start = have > 0 ? rangeStart(response, have, state) : 0;
  if (start === have && response.status === 416) return;
  if (start === null) {
    await response.body?.cancel();
    await forget(partial);
    throw new Error("the server cannot continue what has arrived; beginning anew");
  }
  checkStatus(address, response);
  const length = Number(response.headers.get("content-length") ?? Number.NaN);
  const total = Number.isFinite(length) ? start + length : null;
  // A new beginning empties the file before the state names the new version: old bytes never stand beside a new validator.
  const handle = await open(partial, start > 0 ? "r+" : "w");
  try {
    await writeFile(`${partial}.json`, JSON.stringify({ validator: validatorOf(response), total } satisfies PartialState));
    await receive(response, handle, start, total, options.onProgress);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Where the body begins: `have`, 0 for a whole file, or null where the answer does not go on from what is there. */
function rangeStart(response: Response, have: number, state: PartialState | null): number | null {
  const given = response.headers.get("content-range") ?? "";
  // Nothing is left: right where the file is as long as what is there.
  if (response.status === 416) return given === `bytes */${have}` ? have : null;
  if (response.status !== 206) return 0;
  const [, first, size] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(given) ?? [];
  const known = state?.total ?? null;
  const validator = validatorOf(response);
  const sameFile = validator === null || (state?.validator ?? validator) === validator;
  const sameSize = known === null || size === "*" || Number(size) === known;
  return Number(first) === have && sameSize && sameFile ? have : null;
}

async function receive(response: Response, handle: FileHandle, start: number, total: number | null, onProgress?: OnProgress): Promise<void> {
  let bytes = start;
  onProgress?.({ phase: "downloading", bytes, total });
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    await handle.write(chunk, 0, chunk.length, bytes);
    bytes += chunk.length;
    onProgress?.({ phase: "downloading", bytes, total });
  }
  if (total !== null && bytes !== total) throw new Error(`the connection ended after ${bytes} of ${total} bytes`);
  await handle.truncate(bytes);
}

/** What the server calls this version of the file: a strong ETag, or the time of its last change. */
function validatorOf(response: Response): string | null {
  const etag = response.headers.get("etag");
  return etag !== null && !etag.startsWith("W/") ? etag : response.headers.get("last-modified");
}

function checkStatus(address: ModelAddress, response: Response): void {
  if (response.ok) return;
  const said = `${response.status} ${response.statusText}`.trim();
  // Servers that are busy or broken may answer the next attempt.
  if (response.status >= 500 || response.status === 429 || response.status === 408) throw new Error(`the server answered ${said}`);
  throw new ModelError("model_address_refused", `${address.url} answered ${said}; check the address, and whether it needs a login`);
}

async function checkWhole(address: ModelAddress, partial: string, onProgress: OnProgress | undefined): Promise<void> {
  try {
    await checkIsGguf(partial, address.url);
    if (address.sha256 === null) return;
    const sum = await sha256OfFile(partial, await sizeOf(partial), onProgress);
    if (sum === address.sha256) return;
    throw new ModelError("model_checksum_differs", `${address.url} has sha256 ${sum}; expected ${address.sha256}. It was thrown away`);
  } catch (error) {
    await forget(partial);
    throw error;
  }
}

function unreachable(address: ModelAddress, cause: unknown, kept: number): ModelError {
  const reason = cause instanceof Error ? [cause.message, cause.cause instanceof Error ? cause.cause.message : ""].filter(Boolean).join(": ") : String(cause);
  const rest = kept > 0 ? `; ${kept} bytes are kept, and the same command continues` : "";
  return new ModelError("download_failed", `${address.url} could not be fetched (${reason})${rest}`, cause);
}

async function readState(partial: string): Promise<PartialState | null> {
  try {
    return JSON.parse(await readFile(`${partial}.json`, "utf8")) as PartialState;
  } catch {
    return null;
  }
}

async function forget(partial: string): Promise<void> {
  await rm(partial, { force: true });
  await rm(`${partial}.json`, { force: true });
}

const sizeOf = (file: string) => stat(file).then((stats) => stats.size, () => 0);
