// `npm run bench [-- NAME … [--OPTION …]]`: the benches of the layers and of the whole. A name is a layer or a file's stem; options go to
// the benches that are named (`engine --only decode --rounds 2`). Names that two benches have (`engine`: the layer, and the whole against
// llama.cpp) run both; with options only those at the root.
import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { ROOT, run, setup } from "./setup.mjs";
import { requireTools } from "./tools.mjs";

requireTools();
await setup();
const layers = ["kernels-cuda", "kvstore", "radix", "directives", "engine", "server"];
const folders = [...layers.map((layer) => [layer, join(ROOT, "packages", layer, "bench")]), ["whole", join(ROOT, "bench")]];
const benches = folders.flatMap(([layer, folder]) =>
  (existsSync(folder) ? readdirSync(folder) : [])
    .filter((file) => file.endsWith(".bench.ts"))
    .map((file) => ({ layer, file: join(folder, file), stem: basename(file, ".bench.ts") })),
);
const given = process.argv.slice(2);
const firstOption = given.findIndex((argument) => argument.startsWith("--"));
const names = firstOption < 0 ? given : given.slice(0, firstOption);
const options = firstOption < 0 ? [] : given.slice(firstOption);
const known = new Set(benches.flatMap(({ layer, stem }) => [layer, stem]));
const unknown = names.filter((name) => !known.has(name));
if (unknown.length > 0) {
  console.error(`No bench ${unknown.join(", ")}. There are: ${[...known].join(", ")}.`);
  process.exit(1);
}
for (const { layer, file, stem } of benches) {
  if (names.length > 0 && !names.includes(layer) && !names.includes(stem)) continue;
  if (options.length > 0 && layer !== "whole") continue;
  console.log(`\n──── ${layer}: ${stem} ────`);
  run("npx", ["tsx", file, ...options]);
}
