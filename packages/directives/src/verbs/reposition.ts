import { z } from "zod";
import { boundarySchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";

export const reposition = defineVerb({
  name: "reposition",
  schema: z.strictObject({ op: z.literal("reposition"), at: boundarySchema.optional() }),
  documentation:
    "Gives the visible cells the positions 0…n−1 in their order and the position counter n, also where only the counter moves. No byte of the cache moves.",
  lower(context, args) {
    const at = context.boundary(args.at);
    return { at, operations: [{ kind: "compact", at }] };
  },
});
