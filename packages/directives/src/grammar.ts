import { z } from "zod";
import { LIMITS } from "./limits.ts";

const count = () => z.int().min(0);

/** What a union says of a value that resembles none of its members; of one that does, the member speaks. */
export const forms = (...list: string[]) => ({ error: ({ code }: { code?: string }) => (code === "invalid_union" ? `Expected ${list.slice(0, -1).join(", ")} or ${list.at(-1)}` : undefined) });

/**
 * A list of integers from 0, checked in one loop: a request may hold millions of them, and a schema for each number takes ten times as
 * long. The metadata is what JSON Schema says of such a list.
 */
function counts(least: number, most: number): z.ZodType<number[]> {
  return z
    .custom<number[]>((value) => Array.isArray(value), { error: "Invalid input: expected array" })
    .check(({ value, issues }) => {
      const wrong = value.findIndex((item) => !Number.isSafeInteger(item) || item < 0);
      const refuse = (message: string, path: number[]) => issues.push({ code: "custom", message, path, input: value });
      if (wrong >= 0) refuse("Invalid input: expected an integer from 0", [wrong]);
      else if (value.length < least) refuse(`Too small: expected at least ${least} entry`, []);
      else if (value.length > most) refuse(`Too big: expected at most ${most} entries, got ${value.length}`, []);
    })
    .meta({ type: "array", items: { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }, minItems: least, maxItems: most });
}

/** B of the grammar: after message i, or before token n. Absent in a directive: the end of the log. */
export const boundarySchema = z
  .union([z.strictObject({ message: count() }), z.strictObject({ token: count() })], forms('{"message": i}', '{"token": n}'))
  .describe("After message i, or before token n (after the first n tokens). Absent: the end of the log.");

export const partSchema = z.enum(["content", "thinking", "tool_calls", "tool_result"]);

/** T of the grammar: messages or a part of them, a half-open range of tokens, or an exact text inside a message. */
export const targetSchema = z
  .union(
    [
      z.strictObject({
        messages: counts(1, LIMITS.messageIds),
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
    ],
    forms('{"messages": [ids]}', '{"tokens": [start, end]}', '{"text": {"message": i, "exact": "…"}}'),
  )
  .describe("Message ids and token numbers count the request's own log from 0, whatever earlier directives did.");

/** What a splice puts in the target's place. */
export const replacementSchema = z
  .union([z.string().max(LIMITS.textCharacters), counts(0, LIMITS.replacementTokens)], forms("a text", "an array of token ids"))
  .describe("Text (tokenised alone, without BOS, control tokens as text) or token ids.");
