import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");

/** What a stranger's first file would do with each layer. */
const PROGRAMS: Record<string, string> = {
  radix: `
    import { RadixTree, type ValueOps } from "@palimpsest/radix";
    type Slots = { first: number; length: number };
    const ops: ValueOps<Slots> = {
      split: (value, at) => [{ first: value.first, length: at }, { first: value.first + at, length: value.length - at }],
      retain: (value) => value,
      release: () => {},
    };
    const tree = new RadixTree<Slots>(ops);
    const path = { tokens: Int32Array.of(1, 2, 3, 4), events: [{ at: 2, key: "drop 0..1" }] };
    tree.insert("model", path, 0, 4, { first: 100, length: 4 }).release();
    const plain = tree.match("model", { tokens: path.tokens, events: [] });
    const same = tree.match("model", path);
    console.log(plain.length, plain.end, same.length, same.end);
    plain.release();
    same.release();
    tree.checkIntegrity();
  `,
  kvstore: `
    import { PagePool } from "@palimpsest/kvstore";
    const pool = new PagePool({ pages: 4, pageSize: 16 });
    const lease = pool.allocate(3, "leased");
    const { free, leased, total } = pool.audit();
    lease.release();
    console.log(free, leased, total, pool.audit().free);
  `,
  directives: `
    import { fold, parseDirectives, type Log } from "@palimpsest/directives";
    const log: Log = { tokens: Int32Array.from({ length: 10 }, (_, i) => i), header: 10, contextLength: 100 };
    const directives = parseDirectives([
      { op: "drop", target: { tokens: [2, 5] }, at: { token: 8 } },
      { op: "reposition", at: { token: 8 } },
    ]);
    const folded = fold(log, directives);
    console.log(folded.visible, folded.nextPosition, folded.stages, folded.events.length);
  `,
};
const PRINTS: Record<string, string> = { radix: "2 event_differs 4 whole", kvstore: "1 3 4 4", directives: "7 7 2 1" };

describe("A layer, packed and installed into an empty folder", () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-packed-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(Object.keys(PROGRAMS))("%s works in a strict TypeScript project", (layer) => {
    const project = join(folder, layer);
    mkdirSync(project);
    const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", project, "--workspace", `packages/${layer}`], { cwd: ROOT, encoding: "utf8" });
    const tarball = join(project, packed.trim().split("\n").at(-1) ?? "");
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }));
    execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", tarball], { cwd: project });
    writeFileSync(join(project, "main.ts"), PROGRAMS[layer] ?? "");
    const compilerOptions = { strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, module: "nodenext", target: "es2022", lib: ["es2023", "dom"], types: [], outDir: "out" };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
    execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", project], { encoding: "utf8" });
    expect(execFileSync(process.execPath, [join(project, "out/main.js")], { encoding: "utf8" }).trim()).toBe(PRINTS[layer]);
    const manifest = JSON.parse(readFileSync(join(project, "node_modules/@palimpsest", layer, "package.json"), "utf8")) as { license: string };
    expect(manifest.license).toBe("Apache-2.0");
  }, 180_000);
});
