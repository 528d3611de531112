import { z } from "zod";
import { boundarySchema, targetSchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";

export const scratchSchema = z.strictObject({ op: z.literal("scratch"), target: targetSchema, at: boundarySchema.optional() });

export const scratch = defineVerb({
  name: "scratch",
  schema: scratchSchema,
  documentation:
    "Reasoning that what follows never sees: hides the target, closes the positions that it leaves, and gives its cells up first. An absent boundary is the end of the target.",
  examples: [{ op: "scratch", target: { messages: [5], part: "thinking" }, at: { message: 5 } }],
  lower(context, args) {
    const latest = context.boundary(args.at);
    const ranges = context.ranges(args.target, latest);
    const at = args.at === undefined ? (ranges[ranges.length - 1]?.[1] ?? latest) : latest;
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    return {
      at,
      ranges,
      operations: [
        { kind: "hide", at, ranges },
        { kind: "compact", at },
        { kind: "retain", at, ranges, priority: 0, seconds: null },
      ],
    };
  },
});
