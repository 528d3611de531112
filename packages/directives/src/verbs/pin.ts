import { z } from "zod";
import { boundarySchema, forms, targetSchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";
import type { Scanner } from "../scanner.ts";
import type { Directive } from "../types.ts";

export const pinSchema = z.strictObject({
  op: z.literal("pin"),
  target: targetSchema,
  until: z
    .union([z.strictObject({ turns: z.int().min(1) }), z.strictObject({ seconds: z.number().positive() })], forms('{"turns": n}', '{"seconds": n}'))
    .optional()
    .describe("Ends after n assistant messages behind the boundary, or n seconds after the request. Absent: lasts as long as requests repeat it."),
  at: boundarySchema.optional(),
});

/** `priority` is set by dialects alone, whose own scale has more than one step. */
type PinArgs = Directive & z.infer<typeof pinSchema> & { priority?: number };

const PINNED = 100;

export const pin = defineVerb<PinArgs>({
  name: "pin",
  schema: pinSchema,
  documentation:
    "Asks to keep the target's visible cells longer than others. A hint within the tenant's budget: it expires, may be revoked when a request waits, and never changes an answer.",
  examples: [
    { op: "pin", target: { messages: [0] }, until: { turns: 8 } },
    { op: "pin", target: { tokens: [0, 512] }, until: { seconds: 300 } },
  ],
  text: {
    print: ({ until }) => (until === undefined ? [] : [`until ${Object.values(until as object)[0]} ${Object.keys(until as object)[0]}`]),
    clauses: { until: readUntil },
  },
  lower(context, args) {
    const at = context.boundary(args.at);
    const ranges = context.ranges(args.target, at);
    const { until, priority = PINNED } = args;
    if (until && "turns" in until && context.turnsAfter(at, "until.turns").length >= until.turns) return { at, ranges, operations: [], reason: "expired" };
    if (ranges.length === 0) return { at, ranges, operations: [], reason: "no_whole_token" };
    return { at, ranges, operations: [{ kind: "retain", at, ranges, priority, seconds: until && "seconds" in until ? until.seconds : null }] };
  },
});

/** `until 8 turns`, `until 300 seconds`. */
function readUntil(scanner: Scanner): Record<string, unknown> {
  const value = scanner.json("a number of turns or seconds");
  const unit = scanner.word("turns or seconds");
  return { until: { [unit]: value } };
}
