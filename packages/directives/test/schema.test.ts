import { readFileSync } from "node:fs";
import { expect, expectTypeOf, test } from "vitest";
import { type Directive, directivesJsonSchema, type PinDirective, type SpliceDirective, type StandardDirective, standardRegistry } from "../src/index.ts";

test("schema.json is what the verbs' schemas say (npm run schema -w @palimpsest/directives writes it)", () => {
  const file: unknown = JSON.parse(readFileSync(new URL("../schema.json", import.meta.url), "utf8"));
  expect(file).toEqual(JSON.parse(JSON.stringify(directivesJsonSchema())));
});

test("the JSON Schema has every verb, strict, with its documentation", () => {
  const { items, maxItems } = directivesJsonSchema() as { items: { oneOf: { title: string; description: string; additionalProperties: boolean }[] }; maxItems: number };
  expect(maxItems).toBe(1_024);
  expect(items.oneOf.map(({ title }) => title)).toEqual(standardRegistry.list().map(({ name }) => name));
  for (const { description, additionalProperties } of items.oneOf) {
    expect(description.length).toBeGreaterThan(20);
    expect(additionalProperties).toBe(false);
  }
});

test("TypeScript types of directives are those of the schemas", () => {
  expectTypeOf<SpliceDirective["mode"]>().toEqualTypeOf<"amortize" | "refresh" | "forget" | undefined>();
  expectTypeOf<PinDirective["until"]>().toEqualTypeOf<{ turns: number } | { seconds: number } | undefined>();
  expectTypeOf<StandardDirective["op"]>().toEqualTypeOf<"drop" | "reposition" | "splice" | "pin" | "decay" | "scratch">();
  expectTypeOf<StandardDirective>().toExtend<Directive>();
});
