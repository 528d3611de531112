import { z } from "zod";
import { boundarySchema, replacementSchema, targetSchema } from "../grammar.ts";
import type { Operation } from "../operations.ts";
import { defineVerb } from "../registry.ts";
import type { Directive } from "../types.ts";

const REFRESH_TOKENS = 16;

export const spliceSchema = z.strictObject({
  op: z.literal("splice"),
  target: targetSchema,
  with: replacementSchema,
  mode: z
    .enum(["amortize", "refresh", "forget"])
    .optional()
    .describe("amortize (default): cells behind the target keep what they saw. refresh: the first of them are computed again. forget: as if the target had never stood."),
  refresh_tokens: z.int().min(1).optional().describe(`Cells that refresh computes again; ${REFRESH_TOKENS} where absent.`),
  at: boundarySchema.optional(),
});

export const splice = defineVerb({
  name: "splice",
  schema: spliceSchema,
  documentation:
    "Puts other tokens in the place of the target; what follows moves up or down. AMORTIZE hides the target and does not delete it: later cells keep what they computed from it. Only FORGET removes it.",
  examples: [
    { op: "splice", target: { tokens: [120, 180] }, with: "[elided]", mode: "refresh", refresh_tokens: 16, at: { token: 400 } },
    { op: "splice", target: { messages: [4], part: "tool_result" }, with: [], at: { message: 6 } },
    { op: "splice", target: { text: { message: 2, exact: "a password" } }, with: "[redacted]", mode: "forget" },
  ],
  text: {
    print: printClauses,
    clauses: {
      with: (scanner) => ({ with: scanner.json("a string in quotes or a list of token ids") }),
      amortize: () => ({ mode: "amortize" }),
      forget: () => ({ mode: "forget" }),
      refresh: (scanner) => (scanner.atNumber() ? { mode: "refresh", refresh_tokens: scanner.integer("a number of tokens") } : { mode: "refresh" }),
      refresh_tokens: (scanner) => ({ refresh_tokens: scanner.integer("a number of tokens") }),
    },
  },
  lower(context, args) {
    const at = context.boundary(args.at);
    const tokens = context.replacement(args.with, "with");
    const target = context.contiguous(args.target, at);
    if (target === null) return { at, ranges: [], operations: [], reason: "no_whole_token" };
    if (target[0] === target[1] && tokens.length === 0) {
      context.fail("replacement_invalid", "with", "An empty target with an empty replacement does nothing; name tokens to replace, or give some to insert.");
    }
    const refresh = args.mode === "refresh" ? (args.refresh_tokens ?? REFRESH_TOKENS) : 0;
    const operation: Operation = args.mode === "forget" ? { kind: "edit", at, target, tokens, erases: true } : { kind: "replace", at, target, tokens, refresh };
    return { at, ranges: [target], operations: [operation] };
  },
});

/** `with "[elided]" refresh 16`. A count beside another mode has no effect, but is printed so that it can be read again. */
function printClauses({ with: replacement, mode, refresh_tokens: count }: Directive): string[] {
  const refreshes = mode === "refresh" && count !== undefined;
  const stray = count !== undefined && !refreshes;
  return [
    ...(replacement === undefined ? [] : [`with ${JSON.stringify(replacement)}`]),
    ...(mode === undefined ? [] : [refreshes ? `refresh ${String(count)}` : String(mode)]),
    ...(stray ? [`refresh_tokens ${String(count)}`] : []),
  ];
}
