import { z } from "zod";
import { boundarySchema } from "../grammar.ts";
import { defineVerb } from "../registry.ts";
import type { Directive } from "../types.ts";

/** `strict` is AKV's stricter reading, set by its dialect alone: an empty visible set and a message without tokens are errors. */
interface RepositionArgs extends Directive {
  strict?: boolean;
}

export const repositionSchema = z.strictObject({ op: z.literal("reposition"), at: boundarySchema.optional() });

export const reposition = defineVerb<RepositionArgs>({
  name: "reposition",
  schema: repositionSchema,
  documentation:
    "Gives the visible cells the positions 0…n−1 in their order and the position counter n, also where only the counter moves. No byte of the cache moves.",
  examples: [{ op: "reposition", at: { message: 7 } }, { op: "reposition" }],
  lower(context, args) {
    const at = context.boundary(args.at);
    const { strict } = args;
    if (strict && args.at && "message" in args.at && context.ranges({ messages: [args.at.message] }, at).length === 0) {
      context.fail("akv_invalid", "at", `Message ${args.at.message} rendered no token; name a message that did.`);
    }
    return { at, operations: [{ kind: "compact", at, refuseEmpty: strict }] };
  },
});
