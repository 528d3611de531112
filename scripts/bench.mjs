// `npm run bench [-- NAME …]`: the tinybench benches of the layers and of the whole. A name is a layer or a file's stem.
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
const names = process.argv.slice(2);
const known = new Set(benches.flatMap(({ layer, stem }) => [layer, stem]));
const unknown = names.filter((name) => !known.has(name));
if (unknown.length > 0) {
  console.error(`No bench ${unknown.join(", ")}. There are: ${[...known].join(", ")}.`);
  process.exit(1);
}
for (const { layer, file, stem } of benches) {
  if (names.length > 0 && !names.includes(layer) && !names.includes(stem)) continue;
  console.log(`\n──── ${layer}: ${stem} ────`);
  run("npx", ["tsx", file]);
}
