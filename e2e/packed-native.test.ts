import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const PACKAGE = join(ROOT, "packages/kernels-cuda");
const NATIVE = readdirSync(PACKAGE).find((name) => name.endsWith(".node")) ?? "";
/** "linux-x64-gnu" */
const PLATFORM = NATIVE.replace(/^palimpsest-kernels\./, "").replace(/\.node$/, "");

interface Manifest {
  name: string;
  version: string;
  main?: string;
  files?: string[];
  os?: string[];
  cpu?: string[];
  libc?: string[];
  optionalDependencies?: Record<string, string>;
}

const readManifest = (folder: string) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

const find = (name: string) => execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();

/** What a release does: a package for each platform, laid out by napi, with the library of this one put in. */
describe("The package of this platform, packed as a release packs it", () => {
  let folder: string;
  let layout: string;
  const tarballs: string[] = [];

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "palimpsest-release-"));
    layout = join(folder, "layout");
    cpSync(join(PACKAGE, "dist"), join(layout, "dist"), { recursive: true });
    for (const file of ["package.json", "README.md"]) copyFileSync(join(PACKAGE, file), join(layout, file));
    const napi = (...args: string[]) => execFileSync(process.execPath, [join(ROOT, "node_modules/@napi-rs/cli/dist/cli.js"), ...args], { cwd: layout, stdio: "pipe" });
    napi("create-npm-dirs");
    for (const platform of readdirSync(join(layout, "npm"))) {
      const library = join(layout, "npm", platform, `palimpsest-kernels.${platform}.node`);
      // A release wants all libraries. Those of other platforms are not built here; their packages are laid out, and neither packed nor installed.
      if (platform === PLATFORM) copyFileSync(join(PACKAGE, NATIVE), library);
      else writeFileSync(library, "built on its own platform");
    }
    napi("pre-publish", "-t", "npm", "--skip-optional-publish", "--no-gh-release");
    const pack = (from: string) => execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: from, encoding: "utf8" }).trim().split("\n").at(-1) ?? "";
    tarballs.push(join(folder, pack(join(layout, "npm", PLATFORM))), join(folder, pack(layout)));
  }, 120_000);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("has a package for every platform that the main one names, of the same version and for that platform alone", () => {
    const main = readManifest(layout);
    const platforms = readdirSync(join(layout, "npm"));
    expect(Object.keys(main.optionalDependencies ?? {}).toSorted()).toEqual(platforms.map((platform) => `${main.name}-${platform}`).toSorted());
    for (const platform of platforms) {
      const manifest = readManifest(join(layout, "npm", platform));
      const [os, cpu] = platform.split("-");
      expect(manifest).toMatchObject({ name: `${main.name}-${platform}`, version: main.version, main: `palimpsest-kernels.${platform}.node`, os: [os], cpu: [cpu] });
      expect(main.optionalDependencies?.[manifest.name]).toBe(main.version);
    }
  });

  it("installs and computes where there is no compiler", () => {
    const project = join(folder, "stranger");
    // A PATH with Node and what npm needs of a shell, and nothing that compiles.
    const bin = join(folder, "bin");
    mkdirSync(bin);
    for (const name of ["node", "sh"]) symlinkSync(name === "node" ? process.execPath : find(name), join(bin, name));
    const npm = join(dirname(find("npm")), "npm");
    const env = { PATH: bin, HOME: folder, npm_config_cache: join(folder, "cache") };
    const compilers = ["cargo", "rustc", "cc", "gcc", "c++", "make", "python3"];
    expect(compilers.filter((tool) => spawnSync("sh", ["-c", `command -v ${tool}`], { env }).status === 0)).toEqual([]);
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }));
    // Of the platforms only this one is given; npm must not look for the others elsewhere.
    execFileSync(process.execPath, [npm, "install", "--offline", "--no-audit", "--no-fund", ...tarballs], { cwd: project, env, stdio: "pipe" });
    writeFileSync(
      join(project, "main.mjs"),
      `import { deviceInfo, openRuntime, writeTinyModel } from "@palimpsest/kernels-cuda";
       await writeTinyModel("tiny.gguf", { seed: 1 });
       const runtime = await openRuntime("tiny.gguf", { pages: 4 });
       console.log(JSON.stringify({ levels: deviceInfo().levels, level: runtime.level, layers: runtime.info.layers }));
       await runtime.dispose();`,
    );
    const printed = JSON.parse(execFileSync(process.execPath, ["main.mjs"], { cwd: project, env, encoding: "utf8" })) as { levels: string[]; level: string; layers: number };
    expect(printed.levels).toContain("reference");
    expect(printed.level).toBe(printed.levels.at(-1));
    expect(printed.layers).toBeGreaterThan(0);
    // The library came from the package of the platform, not from a build beside the main one.
    expect(existsSync(join(project, "node_modules/@palimpsest", `kernels-cuda-${PLATFORM}`, NATIVE))).toBe(true);
    expect(readdirSync(join(project, "node_modules/@palimpsest/kernels-cuda")).filter((name) => name.endsWith(".node"))).toEqual([]);
  }, 120_000);
});
