import { z } from "zod";
import { boundarySchema, targetSchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";
import type { Directive } from "../types.ts";

/** `priority` is set by dialects alone, whose own scale has more than one step. */
interface PinArgs extends Directive {
  target: NonNullable<Directive["target"]>;
  until?: { turns: number } | { seconds: number } | undefined;
  priority?: number;
}

const PINNED = 100;

export const pin = defineVerb<PinArgs>({
  name: "pin",
  schema: z.strictObject({
    op: z.literal("pin"),
    target: targetSchema,
    until: z
      .union([z.strictObject({ turns: z.int().min(1) }), z.strictObject({ seconds: z.number().positive() })])
      .optional()
      .describe("Ends after n assistant messages behind the boundary, or n seconds after the request. Absent: lasts as long as requests repeat it."),
    at: boundarySchema.optional(),
  }),
  documentation:
    "Asks to keep the target's visible cells longer than others. A hint within the tenant's budget: it expires, may be revoked when a request waits, and never changes an answer.",
  lower(context, args) {
    const at = context.boundary(args.at);
    const ranges = context.ranges(args.target, at);
    const { until, priority = PINNED } = args;
    if (until && "turns" in until && context.turnsAfter(at, "until.turns").length >= until.turns) return { at, ranges, operations: [], reason: "expired" };
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    return { at, ranges, operations: [{ kind: "retain", at, ranges, priority, seconds: until && "seconds" in until ? until.seconds : null }] };
  },
});
