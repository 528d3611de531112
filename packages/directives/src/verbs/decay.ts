import { z } from "zod";
import { boundarySchema, targetSchema } from "../grammar.ts";
import { ORDINARY_PRIORITY } from "../operations.ts";
import { defineVerb } from "../registry.ts";

export const decaySchema = z.strictObject({
  op: z.literal("decay"),
  target: targetSchema,
  turns: z.int().min(1).describe("Assistant messages behind the boundary after which the target is dropped."),
  at: boundarySchema.optional(),
});

export const decay = defineVerb({
  name: "decay",
  schema: decaySchema,
  documentation:
    "Drops the target after the n-th assistant message that follows the boundary; until then it only lowers its retention with each turn. A function of the log alone, so it is stable from turn to turn.",
  examples: [{ op: "decay", target: { messages: [4] }, turns: 3, at: { message: 4 } }],
  lower(context, args) {
    const at = context.boundary(args.at);
    const ranges = context.ranges(args.target, at);
    const turns = context.turnsAfter(at, "turns");
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    const end = turns[args.turns - 1];
    if (end !== undefined) return { at, ranges, operations: [{ kind: "hide", at: end, ranges }] };
    const priority = Math.floor((ORDINARY_PRIORITY * (args.turns - turns.length)) / (args.turns + 1));
    return { at, ranges, operations: [{ kind: "retain", at, ranges, priority, seconds: null }] };
  },
});
