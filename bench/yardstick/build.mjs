// Builds llama.cpp from the sources that the npm package node-llama-cpp carries, with our small driver, in the checkout's cache folder.
// For benches and figures only: no package of ours depends on it. Takes some minutes once; afterwards nothing.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const FOLDER = join(HERE, "..", "..", ".cache", "yardstick");
const NODE_LLAMA_CPP = "3.22.1"; // carries llama.cpp v0.5.0
const CMAKE = "4.4.5";
const NINJA = "1.13.2";

function run(command, args, cwd = FOLDER) {
  const result = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (result.error) throw result.error;
  if (result.status !== 0) throw new Error(`\`${command} ${args.join(" ")}\` ended with ${result.status ?? result.signal}`);
}

function tools() {
  const venv = join(FOLDER, "venv");
  if (!existsSync(join(venv, "bin", "ninja"))) {
    run("python3", ["-m", "venv", venv]);
    run(join(venv, "bin", "python"), ["-m", "pip", "install", "--quiet", `cmake==${CMAKE}`, `ninja==${NINJA}`]);
  }
  return join(venv, "bin");
}

/** Whether `file` exists and is no older than what it was made of. */
function isFresh(file, ...sources) {
  if (!existsSync(file)) return false;
  const made = statSync(file).mtimeMs;
  return sources.every((source) => statSync(source).mtimeMs <= made);
}

/** The sources of llama.cpp, at the version that the package carries. */
function llamaSources() {
  const source = join(FOLDER, "llama.cpp");
  if (existsSync(source)) return source;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), JSON.stringify({ private: true }));
  run("npm", ["install", `node-llama-cpp@${NODE_LLAMA_CPP}`, "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"]);
  run("git", ["clone", "--quiet", "node_modules/node-llama-cpp/llama/gitRelease.bundle", source]);
  return source;
}

/** Builds the library `libllama` and what it needs, where it is not built yet. ninja continues a build that was cut off. */
function buildLibrary(level, source, build) {
  const bin = tools();
  const flags = level === "avx2" ? ["-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON"] : ["-DGGML_NATIVE=ON"];
  const off = ["TESTS", "SERVER", "EXAMPLES", "TOOLS", "COMMON"].map((part) => `-DLLAMA_BUILD_${part}=OFF`);
  console.log(`Building llama.cpp (${level}), once …`);
  run(join(bin, "cmake"), ["-S", source, "-B", build, "-G", "Ninja", `-DCMAKE_MAKE_PROGRAM=${join(bin, "ninja")}`, "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", ...flags, ...off]);
  run(join(bin, "cmake"), ["--build", build, "--target", "llama"]);
}

/**
 * Path of the driver; builds what is missing, and the driver again when its source has changed. `level` "native" is this machine's best,
 * "avx2" what a machine without AVX-512 runs.
 */
export function yardstick(level = "native") {
  const build = join(FOLDER, `build-${level}`);
  const driver = join(build, "yardstick");
  const main = join(HERE, "yardstick.cpp");
  if (isFresh(driver, main, join(HERE, "parts.h"))) return driver;
  const source = llamaSources();
  const libraries = join(build, "bin");
  if (!existsSync(join(libraries, "libllama.so"))) buildLibrary(level, source, build);
  const includes = [`-I${join(source, "include")}`, `-I${join(source, "ggml", "include")}`];
  run("c++", ["-std=c++17", "-O2", ...includes, main, "-o", driver, `-L${libraries}`, `-Wl,-rpath,${libraries}`, "-lllama", "-lggml", "-lggml-base", "-lggml-cpu"]);
  return driver;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(yardstick(process.argv[2]));
