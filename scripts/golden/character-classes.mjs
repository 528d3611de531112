// Writes packages/engine/src/tokenizer/character-runs.ts: the classes of code points that pre-tokenizers ask for.
//
//   npm install --prefix FOLDER @unicode/unicode-15.1.0@2.0.7
//   node scripts/golden/character-classes.mjs FOLDER
//
// The version of Unicode is pinned on purpose: llama.cpp's table is of this version, and Node's own `\p{L}` changes from release
// to release, so that one text would have other tokens on another Node.

import { writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
if (folder === undefined) throw new Error("usage: node scripts/golden/character-classes.mjs FOLDER (with @unicode/unicode-15.1.0 in it)");
const root = path.join(path.resolve(folder), "node_modules/@unicode/unicode-15.1.0");
const unicode = async (name) => (await import(pathToFileURL(path.join(root, name, "code-points.mjs")).href)).default;

const classes = new Array(0x110000).fill(".");
for (const code of await unicode("General_Category/Letter")) classes[code] = "L";
for (const code of await unicode("General_Category/Number")) classes[code] = "N";
for (const code of await unicode("General_Category/Punctuation")) classes[code] = "P";
for (const code of await unicode("Binary_Property/White_Space")) classes[code] = "S";

const runs = [];
for (let code = 0, last = 0; code < classes.length; ) {
  const kind = classes[code];
  let end = code + 1;
  while (end < classes.length && classes[end] === kind) end += 1;
  if (kind !== ".") {
    runs.push(`${kind}${(code - last).toString(36)}${end - code === 1 ? "" : `.${(end - code).toString(36)}`}`);
    last = end;
  }
  code = end;
}

const lines = [];
for (const run of runs) {
  const line = lines.at(-1);
  if (line === undefined || line.length + run.length + 1 > 120) lines.push(run);
  else lines[lines.length - 1] = `${line} ${run}`;
}
const target = new URL("../../packages/engine/src/tokenizer/character-runs.ts", import.meta.url);
writeFileSync(
  target,
  `// Made by scripts/golden/character-classes.mjs. Do not edit.

/**
 * Runs of letters (L), numbers (N), punctuation (P) and white space (S) of Unicode 15.1 in rising order: the class, how far the run
 * begins after the end of the run before it, and after a dot its length when that is not 1, both in base 36.
 */
export const CHARACTER_RUNS =
${lines.map((line, index) => `  "${line}${index < lines.length - 1 ? " " : ""}"`).join(" +\n")};
`,
);
console.log(`${runs.length} runs, ${lines.join(" ").length} bytes`);
