import { describe, expect, test } from "vitest";
import { z } from "zod";
import { boundarySchema, conformance, defineVerb, standardVerbs, type Verb } from "../src/index.ts";

const cases = process.env.PALIMPSEST_LONG === "1" ? 3_000 : 150;

describe.each(standardVerbs)("the verb $name", (verb) => {
  test.each(conformance(verb, { cases }))("$name", ({ run }) => {
    expect(run).not.toThrow();
  });
});

const sound = defineVerb({
  name: "forget_twice",
  schema: z.strictObject({ op: z.literal("forget_twice"), at: boundarySchema.optional() }),
  documentation: "A verb that the checks below break in one way each.",
  examples: [{ op: "forget_twice" }],
  lower: (context, args) => ({ at: context.boundary(args.at), operations: [{ kind: "compact", at: context.boundary(args.at) }] }),
});

let calls = 0;
const broken: [string, Partial<Verb>, number][] = [
  ["documentation", { documentation: "no" }, 0],
  ["undescribed fields", { schema: z.strictObject({ op: z.literal("forget_twice"), count: z.int().optional(), at: boundarySchema.optional() }) as Verb["schema"] }, 0],
  ["a loose schema", { schema: z.looseObject({ op: z.literal("forget_twice"), at: boundarySchema.optional() }) as Verb["schema"] }, 1],
  ["a text form that forgets", { text: { print: () => [], clauses: {} }, schema: z.strictObject({ op: z.literal("forget_twice"), count: z.int().describe("how many") }) as Verb["schema"] }, 2],
  ["state", { lower: (context, args) => ({ at: context.boundary(args.at), operations: calls++ % 2 === 0 ? [] : [{ kind: "compact", at: 0 }] }) }, 3],
  ["refusing everything", { lower: (context) => context.fail("directive_invalid", "op", "no") }, 3],
  ["too many operations", { lower: (context, args) => ({ at: context.boundary(args.at), operations: Array.from({ length: 5_000 }, () => ({ kind: "compact" as const, at: 0 })) }) }, 4],
  ["a refusal without its name", { lower: () => { throw new TypeError("oops"); } }, 3],
];

test.each(broken)("the checks find a verb that is broken by %s", (_what, change, check) => {
  const verb = { ...sound, ...change };
  expect(conformance(verb, { cases: 40 })[check]!.run).toThrow(/./);
});

test("a sound verb passes every check", () => {
  for (const { run } of conformance(sound, { cases: 60 })) expect(run).not.toThrow();
});
