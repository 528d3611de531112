import type { FastifyInstance, FastifyRequest } from "fastify";
import type { ServerContext } from "../context.ts";
import { ServerError } from "../errors.ts";
import { readBody } from "../openai/body.ts";
import { chatLog, checkIds, requireModel } from "../openai/prepare.ts";
import { inPlace } from "../place.ts";
import { bodySpec, detokenizeSchema, tokenizeSchema } from "../openai/schema.ts";
import { refuseUnbuiltMessages } from "../openai/unbuilt.ts";

/** `/tokenize` and `/detokenize`: exactly what the other endpoints do with the same text. */
export function textRoutes(fastify: FastifyInstance, context: ServerContext): void {
  const { lifecycle, limits } = context;
  const tokenizeSpec = bodySpec(tokenizeSchema(limits));
  const detokenizeSpec = bodySpec(detokenizeSchema);

  fastify.post("/tokenize", (request, reply) => inPlace(context, reply, (signal) => tokenize(request, signal)));

  fastify.post("/detokenize", async (request) => {
    const service = lifecycle.require();
    const { value, warnings } = readBody(detokenizeSpec, request.body, limits);
    requireModel(service, value.model);
    const prompt = service.tokenizer.decode(checkIds(service, value.tokens, "tokens"));
    return { prompt, count: value.tokens.length, ...noted(warnings) };
  });

  async function tokenize(request: FastifyRequest, signal: AbortSignal): Promise<object> {
    const service = lifecycle.require();
    const { value, warnings } = readBody(tokenizeSpec, request.body, limits);
    requireModel(service, value.model);
    if (typeof value.prompt === "string" && value.messages) {
      throw new ServerError("field_invalid", "prompt: give prompt or messages, not both", { param: "prompt" });
    }
    if (typeof value.prompt === "string") {
      const tokens = await service.tokenizer.encodeInSlices(value.prompt, value.add_special_tokens ?? true, signal);
      return { tokens: Array.from(tokens), count: tokens.length, max_model_len: service.contextLength, ...noted(warnings) };
    }
    if (!value.messages) throw new ServerError("field_missing", "prompt is missing: expected a string, or messages instead", { param: "prompt" });
    refuseUnbuiltMessages(value.messages);
    const { log, warnings: unseen } = await chatLog(service, { ...value, messages: value.messages }, { signal });
    return {
      tokens: Array.from(log.tokens),
      count: log.tokens.length,
      owners: Array.from(log.chat?.owners ?? []),
      max_model_len: service.contextLength,
      ...noted([...warnings, ...unseen]),
    };
  }
}

const noted = (warnings: readonly string[]) => (warnings.length > 0 ? { warnings } : {});
