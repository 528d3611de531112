import { z } from "zod";
import { boundarySchema, targetSchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";
import type { Directive } from "../types.ts";

export const dropSchema = z.strictObject({ op: z.literal("drop"), target: targetSchema, at: boundarySchema.optional() });

/** `strict` is AKV's stricter reading, set by its dialect alone: reasoning that the template left out is an error. */
type DropArgs = Directive & z.infer<typeof dropSchema> & { strict?: boolean };

export const drop = defineVerb<DropArgs>({
  name: "drop",
  schema: dropSchema,
  documentation:
    "Hides the target from every query behind the boundary. Nothing moves: the cells that remain keep their positions, and what was computed while the target was visible keeps what it saw.",
  examples: [
    { op: "drop", target: { messages: [3, 4], part: "thinking" }, at: { message: 7 } },
    { op: "drop", target: { tokens: [30, 630] } },
    { op: "drop", target: { text: { message: 2, exact: "a password", occurrence: 1 } } },
  ],
  lower(context, args) {
    const at = context.boundary(args.at);
    const ranges = context.ranges(args.target, at);
    if (ranges.length === 0 && args.strict) context.fail("akv_invalid", "target", "The template rendered no reasoning of this message; use a template that keeps it.");
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    return { at, ranges, operations: [{ kind: "hide", at, ranges }] };
  },
});
