import type { FastifyInstance } from "fastify";
import { messagesReader, tokenCounter } from "../anthropic/reader.ts";
import type { ServerContext } from "../context.ts";
import { respond } from "../openai/respond.ts";
import { inPlace } from "../place.ts";

/** Anthropic's endpoints. Answers are computed as OpenAI's are; only how they are read and written differs. */
export function anthropicRoutes(fastify: FastifyInstance, context: ServerContext): void {
  const read = messagesReader(context.limits);
  const count = tokenCounter(context.limits);

  fastify.post("/v1/messages", (request, reply) =>
    respond(context, request, reply, async (signal) => (await read(context.lifecycle.require(), request.caller, request.body, signal)).answer),
  );
  fastify.post("/v1/messages/count_tokens", (request, reply) => inPlace(context, reply, (signal) => count(context.lifecycle.require(), request.body, signal)));
}
