// Writes a package with a new verb: node packages/directives/scripts/new-verb.mjs NAME [FOLDER]
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [name, folder = `palimpsest-verb-${name}`] = process.argv.slice(2);
if (name === undefined || !/^[a-z][a-z0-9_]*$/.test(name)) {
  console.error("Usage: new-verb.mjs NAME [FOLDER]. A verb's name is made of a-z, 0-9 and _, and begins with a letter.");
  process.exit(1);
}
const target = resolve(folder);
if (existsSync(target)) {
  console.error(`${target} exists already; name another folder.`);
  process.exit(1);
}

const variable = name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const files = {
  "package.json": `${JSON.stringify(
    {
      name: `palimpsest-verb-${name.replaceAll("_", "-")}`,
      version: "0.1.0",
      description: `The directive verb ${name}`,
      type: "module",
      exports: "./index.js",
      files: ["index.js"],
      scripts: { test: "vitest run" },
      peerDependencies: { "@palimpsest/directives": "^0.1.0", zod: "^4.6.7" },
      devDependencies: { vitest: "4.1.12", vite: "8.3.8" },
    },
    null,
    2,
  )}\n`,
  "index.js": `// @ts-check
import { boundarySchema, defineVerb, targetSchema } from "@palimpsest/directives";
import { z } from "zod";

export const ${variable} = defineVerb({
  name: "${name}",
  // Strict: unknown fields are refused. Each field says what it is.
  schema: z.strictObject({
    op: z.literal("${name}"),
    target: targetSchema,
    at: boundarySchema.optional(),
  }),
  documentation: "Hides the target from every query behind the boundary.",
  examples: [{ op: "${name}", target: { tokens: [0, 4] }, at: { token: 8 } }],
  // Pure: from the log and the arguments to operations, in the log's own coordinates.
  lower(context, { target, at: boundary }) {
    const at = context.boundary(boundary);
    const ranges = context.ranges(target, at);
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    return { at, ranges, operations: [{ kind: "hide", at, ranges }] };
  },
});

/** What \`palimpsest serve --verbs\` loads. */
export const verbs = [${variable}];
`,
  "index.test.js": `import { conformance } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { ${variable} } from "./index.js";

for (const { name, run } of conformance(${variable})) {
  test(name, () => {
    expect(run).not.toThrow();
  });
}
`,
  "README.md": `# The directive verb ${name}

\`\`\`sh
npm install
npm test                                              # what every verb must hold to
palimpsest serve --verbs palimpsest-verb-${name.replaceAll("_", "-")}
\`\`\`
`,
};
mkdirSync(target, { recursive: true });
for (const [file, text] of Object.entries(files)) writeFileSync(join(target, file), text);
console.log(`Wrote ${target}. Next: npm install && npm test, then change index.js.`);
