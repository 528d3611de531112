import { readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const PACKAGES = join(ROOT, "packages");

/** DESIGN 3: what a layer may import of ours. */
const ARROWS: Record<string, readonly string[]> = {
  radix: [],
  kvstore: [],
  "kernels-cuda": [],
  directives: [],
  policies: ["directives"],
  engine: ["directives", "radix", "kvstore", "kernels-cuda"],
  server: ["engine", "directives", "policies"],
};

/** Layers that bind what they may import from outside, too. */
const OUTSIDE: Record<string, readonly string[]> = { radix: [], directives: ["zod"] };

const filesBelow = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : path.endsWith(".ts") ? [path] : [];
  });

const specifiers = (file: string): string[] => ts.preProcessFile(readFileSync(file, "utf8"), true, true).importedFiles.map((entry) => entry.fileName);

/** The arrows that a file's imports draw against the rules; empty when it keeps to them. */
function violations(layer: string, file: string, imports: readonly string[]): string[] {
  const home = join(PACKAGES, layer) + sep;
  const allowed = ARROWS[layer] ?? [];
  const outside = OUTSIDE[layer];
  return imports.flatMap((specifier) => {
    const arrow = `${relative(ROOT, file)} → ${specifier}`;
    if (specifier.startsWith(".")) return resolve(file, "..", specifier).startsWith(home) ? [] : [arrow];
    if (specifier.startsWith("@palimpsest/")) return allowed.includes(specifier.split("/")[1] ?? "") ? [] : [arrow];
    if (specifier.startsWith("node:")) return layer === "radix" || layer === "directives" ? [arrow] : [];
    return outside === undefined || outside.includes(specifier.split("/")[0] ?? "") ? [] : [arrow];
  });
}

const layers = readdirSync(PACKAGES).filter((name) => statSync(join(PACKAGES, name)).isDirectory());

describe("Imports point down the diagram of the layers", () => {
  it("knows every package", () => {
    expect(layers.filter((layer) => !(layer in ARROWS))).toEqual([]);
  });

  it.each(layers)("%s imports only what it may", (layer) => {
    const wrong = filesBelow(join(PACKAGES, layer, "src")).flatMap((file) => violations(layer, file, specifiers(file)));
    expect(wrong).toEqual([]);
  });

  it.each(layers)("the manifest of %s depends only on what it may", (layer) => {
    const manifest = JSON.parse(readFileSync(join(PACKAGES, layer, "package.json"), "utf8")) as Record<string, Record<string, string> | undefined>;
    const names = ["dependencies", "peerDependencies", "optionalDependencies"].flatMap((field) => Object.keys(manifest[field] ?? {}));
    const ours = names.filter((name) => name.startsWith("@palimpsest/") && !name.startsWith(`@palimpsest/${layer}-`));
    expect(ours.filter((name) => !(ARROWS[layer] ?? []).includes(name.split("/")[1] ?? ""))).toEqual([]);
    const outside = OUTSIDE[layer];
    if (outside !== undefined) expect(names.filter((name) => !outside.includes(name))).toEqual([]);
  });

  it("would see a forbidden arrow", () => {
    const file = join(PACKAGES, "radix", "src", "tree.ts");
    expect(violations("radix", file, ["./types.ts", "@palimpsest/kvstore", "../../engine/src/index.ts", "node:fs", "zod"])).toHaveLength(4);
    expect(violations("engine", file.replace("radix", "engine"), ["@palimpsest/server"])).toHaveLength(1);
  });

  it("lets only one crate know napi", () => {
    const crates = join(PACKAGES, "kernels-cuda", "crates");
    const knowing = readdirSync(crates).filter((name) => /^napi/m.test(readFileSync(join(crates, name, "Cargo.toml"), "utf8")));
    expect(knowing).toEqual(["binding"]);
  });
});
