// What a machine needs before anything of ours runs. Only Node's own modules: nothing is installed yet.
import { spawnSync } from "node:child_process";

const answers = (command, args) => spawnSync(command, args, { stdio: "ignore" }).status === 0;

/** Version text "v20.19.1" at least [20, 19]? */
const atLeast = (version, [major, minor]) => {
  const [a = 0, b = 0] = version.replace(/^v/, "").split(".").map(Number);
  return a > major || (a === major && b >= minor);
};

const TOOLS = [
  { name: "Node 20.19 or newer", get: "nodejs.org, or your system's package `nodejs`", found: () => atLeast(process.version, [20, 19]) },
  { name: "npm", get: "it comes with Node", found: () => answers("npm", ["--version"]) },
  {
    name: "cargo and rustc",
    get: "rustup.rs (the toolchain's version stands in rust-toolchain.toml)",
    found: () => answers("cargo", ["--version"]) && answers("rustc", ["--version"]),
  },
  { name: "a C compiler and linker (cc)", get: "Debian: `apt-get install gcc libc6-dev`; macOS: `xcode-select --install`", found: () => answers("cc", ["--version"]) },
  { name: "python3", get: "your system's package `python3`", found: () => answers("python3", ["--version"]) },
  { name: "pip (python3 -m pip)", get: "Debian: `apt-get install python3-pip`; else `python3 -m ensurepip`", found: () => answers("python3", ["-m", "pip", "--version"]) },
];

/** All that is missing, named at once. */
export function missingTools(tools = TOOLS) {
  return tools.filter((tool) => !tool.found()).map(({ name, get }) => ({ name, get }));
}

/** Ends the process with one message when something is missing. */
export function requireTools() {
  const missing = missingTools();
  if (missing.length === 0) return;
  console.error("Palimpsest needs tools that this machine does not have:");
  for (const { name, get } of missing) console.error(`  - ${name}: ${get}`);
  process.exit(1);
}
