import { z } from "zod";
import { LIMITS } from "./limits.ts";
import type { Registry } from "./registry.ts";
import { standardRegistry } from "./verbs/index.ts";

/** JSON Schema (draft 2020-12) of a request's `directives`, made from the verbs' own schemas. */
export function directivesJsonSchema(registry: Registry = standardRegistry): Record<string, unknown> {
  const verbs = registry.list().map(({ name, schema, documentation }) => Object.assign({ title: name }, verbJsonSchema(schema), { description: documentation }));
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "directives",
    description: "Edits of a request's context. Message ids and token numbers count the request's own log from 0.",
    type: "array",
    maxItems: LIMITS.directives,
    items: { oneOf: verbs },
  };
}

/** JSON Schema of what one verb's directives look like in a request. */
export function verbJsonSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
}
