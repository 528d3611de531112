import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (name: string) => fileURLToPath(new URL(`./packages/${name}/src/index.ts`, import.meta.url));
const layers = ["kernels-cuda", "kvstore", "radix", "directives", "engine", "server"];

// Tests run on the TypeScript sources, so that a test never meets a stale build of a layer below.
export default defineConfig({
  resolve: { alias: Object.fromEntries(layers.map((name) => [`@palimpsest/${name}`, source(name)])) },
  test: {
    include: ["packages/*/test/**/*.test.ts", "e2e/**/*.test.ts"],
    pool: "forks",
    // The long ranges are up to a hundred times the usual ones.
    testTimeout: process.env["PALIMPSEST_LONG"] === "1" ? 3_600_000 : 60_000,
  },
});
