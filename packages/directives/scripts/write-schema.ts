// Writes schema.json from the verbs. Run after a change of a verb's schema: npm run schema -w @palimpsest/directives
import { writeFileSync } from "node:fs";
import { directivesJsonSchema } from "../src/index.ts";

writeFileSync(new URL("../schema.json", import.meta.url), `${JSON.stringify(directivesJsonSchema(), null, 2)}\n`);
