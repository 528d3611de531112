import { readdir, stat } from "node:fs/promises";
import path from "node:path";
import { nearest } from "../nearest.ts";
import { makeFolder, modelsFolder } from "./cache-folder.ts";
import { CATALOG, type CatalogEntry } from "./catalog.ts";
import { sha256OfFile } from "./checksum.ts";
import { ModelError } from "./errors.ts";
import { withLock } from "./lock.ts";
import type { OnProgress } from "./progress.ts";
import { type ModelAddress, type PullAddressOptions, parseAddress, pullAddress } from "./pull-address.ts";
import { pullPackages } from "./pull-packages.ts";
import type { PythonOptions } from "./python.ts";

/** What `--model` or `pull` names, and the file that it is or will be. */
export type ResolvedModel =
  | { kind: "catalog"; entry: CatalogEntry; file: string }
  | { kind: "address"; address: ModelAddress; file: string }
  | { kind: "file"; file: string };

export interface PullOptions extends PythonOptions, Pick<PullAddressOptions, "attemptsMax" | "retryMs"> {
  onProgress?: OnProgress | undefined;
  /** Folder of the model files. Default: `models` in the cache folder. */
  folder?: string | undefined;
  catalog?: readonly CatalogEntry[] | undefined;
}

/** A model of the catalog, or another file in the cache folder. */
export interface ListedModel {
  name: string;
  title: string;
  file: string;
  bytes: number;
  cached: boolean;
  testOnly: boolean;
  licence: string | null;
}

/**
 * Says what a name, path or address means, without touching the network. A name of the catalog comes first; write `./name` for a file
 * that is called like one.
 *
 * @throws ModelError `model_name_unknown`, `model_file_missing`, `model_address_invalid`
 */
export async function resolveModel(spec: string, { folder = modelsFolder(), catalog = CATALOG }: PullOptions = {}): Promise<ResolvedModel> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(spec)) {
    const address = parseAddress(spec);
    return { kind: "address", address, file: path.join(folder, address.file) };
  }
  const entry = catalog.find(({ name }) => name === spec.toLowerCase());
  if (entry !== undefined) return { kind: "catalog", entry, file: path.join(folder, entry.file) };
  for (const file of [path.resolve(spec), path.join(folder, spec)]) {
    const stats = await stat(file).catch(() => null);
    if (stats?.isFile() === true) return { kind: "file", file };
    if (stats?.isDirectory() === true && spec !== "") {
      throw new ModelError("model_file_missing", `${file} is a folder; give the GGUF file itself`);
    }
  }
  if (/[\\/]|\.gguf$/i.test(spec)) throw new ModelError("model_file_missing", `there is no file ${path.resolve(spec)}`);
  const names = catalog.map(({ name }) => name);
  const close = nearest(spec.toLowerCase(), names, 4);
  const hint = close === null ? "." : `; did you mean ${close}?`;
  throw new ModelError("model_name_unknown", `there is no model "${spec}"${hint} Known are ${names.join(", ")}; a path or an address of a GGUF file will do too`);
}

/** Whether the file is in place. A file that is in place is whole: it came there by a rename, after its sum was checked. */
export async function isCached(model: ResolvedModel): Promise<boolean> {
  const stats = await stat(model.file).catch(() => null);
  if (stats === null) return false;
  return model.kind !== "catalog" || stats.size === model.entry.bytes;
}

/**
 * The file of a model, fetched if it is not there. Touches no network when it is. Two processes at once fetch once; the second waits.
 *
 * @returns path of the GGUF file
 * @throws ModelError
 */
export async function pullModel(spec: string, options: PullOptions = {}): Promise<string> {
  const model = await resolveModel(spec, options);
  if (model.kind === "file") return model.file;
  if (await isCached(model)) {
    await checkCachedSum(model, options.onProgress);
    return model.file;
  }
  await makeFolder(path.dirname(model.file));
  const onWait = () => options.onProgress?.({ phase: "waiting", bytes: 0, total: null });
  await withLock(
    `${model.file}.lock`,
    async () => {
      if (await isCached(model)) return;
      if (model.kind === "catalog") await pullPackages(model.entry, model.file, options);
      else await pullAddress(model.address, model.file, options);
    },
    { onWait, signal: options.signal },
  );
  return model.file;
}

/** An address that names a sum is held to it, also when the file came by the same address without one. */
async function checkCachedSum(model: ResolvedModel, onProgress: OnProgress | undefined): Promise<void> {
  if (model.kind !== "address" || model.address.sha256 === null) return;
  const { size } = await stat(model.file);
  const sum = await sha256OfFile(model.file, size, onProgress);
  if (sum === model.address.sha256) return;
  const message = `${model.file} has sha256 ${sum}; the address says ${model.address.sha256}. Delete the file to fetch it anew`;
  throw new ModelError("model_checksum_differs", message);
}

/** The catalog, then what else lies in the cache folder. */
export async function listModels({ folder = modelsFolder(), catalog = CATALOG }: PullOptions = {}): Promise<ListedModel[]> {
  const known = await Promise.all(
    catalog.map(async (entry): Promise<ListedModel> => {
      const file = path.join(folder, entry.file);
      const { name, title, bytes, testOnly, licence } = entry;
      return { name, title, file, bytes, testOnly, licence, cached: await isCached({ kind: "catalog", entry, file }) };
    }),
  );
  const others: ListedModel[] = [];
  for (const name of (await readdir(folder).catch((): string[] => [])).toSorted()) {
    if (!name.endsWith(".gguf") || catalog.some((entry) => entry.file === name)) continue;
    const file = path.join(folder, name);
    const stats = await stat(file).catch(() => null);
    if (stats?.isFile() !== true) continue;
    others.push({ name, title: "fetched by its address, or put there", file, bytes: stats.size, cached: true, testOnly: false, licence: null });
  }
  return [...known, ...others];
}
