import { z } from "zod";
import { LIMITS } from "./limits.ts";

const count = () => z.int().min(0);

/** B of the grammar: after message i, or before token n. Absent in a directive: the end of the log. */
export const boundarySchema = z
  .union([z.strictObject({ message: count() }), z.strictObject({ token: count() })])
  .describe("After message i, or before token n (after the first n tokens). Absent: the end of the log.");

export const partSchema = z.enum(["content", "thinking", "tool_calls", "tool_result"]);

/** T of the grammar: messages or a part of them, a half-open range of tokens, or an exact text inside a message. */
export const targetSchema = z
  .union([
    z.strictObject({
      messages: z.array(count()).min(1).max(LIMITS.messageIds),
      part: partSchema.optional(),
    }),
    z.strictObject({ tokens: z.tuple([count(), count()]) }),
    z.strictObject({
      text: z.strictObject({
        message: count(),
        exact: z.string().min(1).max(LIMITS.textCharacters),
        occurrence: z.int().min(1).optional(),
      }),
    }),
  ])
  .describe("Message ids and token numbers count the request's own log from 0, whatever earlier directives did.");

/** What a splice puts in the target's place. */
export const replacementSchema = z
  .union([z.string().max(LIMITS.textCharacters), z.array(count()).max(LIMITS.replacementTokens)])
  .describe("Text (tokenised alone, without BOS, control tokens as text) or token ids.");
