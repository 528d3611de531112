import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { isAbsolute, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { conformance, standardRegistry, verbsOf, type Registry, type Verb } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";

/** Random directives that each verb of a package is tried with before the server starts; its own tests try hundreds. */
const CASES = 20;

/**
 * The standard verbs and those of npm packages (`--verbs NAME`), found from `folder` as Node finds packages, or by a path. A package that
 * is not there, cannot be loaded, exports no verbs, names one that is taken, or has one that does not conform is refused by name.
 */
export async function loadVerbs(names: readonly string[], folder: string): Promise<Registry> {
  let registry: Registry = standardRegistry;
  for (const name of names) {
    const verbs = await verbsIn(name, folder);
    try {
      registry = registry.with(verbs);
    } catch (cause) {
      throw refusal(name, cause instanceof Error ? cause.message : String(cause), cause);
    }
    for (const verb of verbs) requireConforming(name, verb);
  }
  return registry;
}

async function verbsIn(name: string, folder: string): Promise<readonly Verb[]> {
  const file = entryOf(name, folder);
  if (file === null) {
    throw refusal(name, `it was not found from ${folder}; install it there (npm install ${name}), or give a path that begins with ./ or /`);
  }
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (cause) {
    throw refusal(name, `${file} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`, cause);
  }
  try {
    return verbsOf(module, name);
  } catch (cause) {
    throw refusal(name, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function requireConforming(name: string, verb: Verb): void {
  let failing = "its schema";
  try {
    for (const check of conformance(verb, { cases: CASES })) {
      failing = check.name;
      check.run();
    }
  } catch (cause) {
    const [reason] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    throw refusal(name, `its verb "${verb.name}" does not conform (${failing}): ${reason}`, cause);
  }
}

/** The file that `import` would load. A name is looked for in `node_modules` of the folder and of those above it. */
function entryOf(name: string, folder: string): string | null {
  if (/^\.{1,2}([/\\]|$)/.test(name) || isAbsolute(name)) return fileIn(resolve(folder, name));
  for (const modules of createRequire(join(folder, "here.js")).resolve.paths(name) ?? []) {
    const file = fileIn(join(modules, name));
    if (file !== null) return file;
  }
  return null;
}

/** A file itself, or the entry of the package in a folder. */
function fileIn(path: string): string | null {
  if (!existsSync(path)) return null;
  if (statSync(path).isFile()) return path;
  const manifest = join(path, "package.json");
  const { exports, main } = existsSync(manifest) ? (JSON.parse(readFileSync(manifest, "utf8")) as { exports?: unknown; main?: string }) : {};
  const file = join(path, exported(exports) ?? main ?? "index.js");
  return existsSync(file) ? file : null;
}

/** What `exports` of a manifest gives to `import`. */
function exported(exports: unknown): string | null {
  if (typeof exports === "string") return exports;
  if (typeof exports !== "object" || exports === null) return null;
  const conditions = exports as Record<string, unknown>;
  for (const condition of [".", "import", "node", "default"]) {
    const file = condition in conditions ? exported(conditions[condition]) : null;
    if (file !== null) return file;
  }
  return null;
}

const refusal = (name: string, message: string, cause?: unknown) => new ServerError("flag_invalid", `--verbs ${name}: ${message}`, { param: "--verbs", cause });
