import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { KernelError } from "./errors.ts";
import type { Native } from "./native.ts";

/** Where the binary is looked for, and how it is opened. Tests bring their own. */
export interface LoaderHost {
  platform: string;
  arch: string;
  /** "glibc", "musl" or "" (not Linux). */
  libc: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** Folder of this package. */
  folder: string;
  open(pathOrName: string): unknown;
}

/** What napi calls this platform: "linux-x64-gnu", "darwin-arm64", … */
export function platformName(host: Pick<LoaderHost, "platform" | "arch" | "libc">): string {
  if (host.platform === "linux") return `linux-${host.arch}-${host.libc === "musl" ? "musl" : "gnu"}`;
  if (host.platform === "win32") return `win32-${host.arch}-msvc`;
  return `${host.platform}-${host.arch}`;
}

/**
 * Opens the native part: the file that `NAPI_RS_NATIVE_LIBRARY_PATH` names, else a local build beside this package, else the
 * package of the platform. Errors: `backend_unsupported`, with every place that was tried and what it said.
 */
export function loadNative(host: LoaderHost = thisHost()): Native {
  const name = platformName(host);
  const file = `${host.folder}palimpsest-kernels.${name}.node`;
  const named = host.environment["NAPI_RS_NATIVE_LIBRARY_PATH"];
  // A file that is named is meant: nothing else is tried in its place.
  const candidates = named ? [named] : [file, `@palimpsest/kernels-cuda-${name}`];
  const tried: string[] = [];
  for (const candidate of candidates) {
    try {
      return host.open(candidate) as Native;
    } catch (cause) {
      tried.push(`  ${candidate}: ${cause instanceof Error ? cause.message.split("\n")[0] : String(cause)}`);
    }
  }
  const libc = host.libc === "" ? "" : `, ${host.libc}`;
  throw new KernelError(
    "backend_unsupported",
    `No native part of @palimpsest/kernels-cuda loads on ${host.platform} ${host.arch}${libc} (Node ${process.versions.node}).\n` +
      `Tried:\n${tried.join("\n")}\n` +
      `Where no package for ${name} exists, build it with Rust: npm run build -w @palimpsest/kernels-cuda.`,
  );
}

function thisHost(): LoaderHost {
  const require = createRequire(import.meta.url);
  return {
    platform: process.platform,
    arch: process.arch,
    libc: process.platform === "linux" ? libcOfThisProcess() : "",
    environment: process.env,
    folder: fileURLToPath(new URL("../", import.meta.url)),
    open: (pathOrName) => require(pathOrName),
  };
}

/** musl leaves its loader in /lib and no glibc version in Node's report. */
function libcOfThisProcess(): string {
  const ldd = "/usr/bin/ldd";
  try {
    if (existsSync(ldd)) return readFileSync(ldd, "latin1").includes("musl") ? "musl" : "glibc";
    return readdirSync("/lib").some((entry) => entry.startsWith("ld-musl-")) ? "musl" : "glibc";
  } catch {
    const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
    return report.header?.glibcVersionRuntime ? "glibc" : "musl";
  }
}
