import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ServerContext } from "../context.ts";
import { ServerError } from "../errors.ts";
import { chatReader } from "../openai/chat.ts";
import { completionReader } from "../openai/completions.ts";
import { erase, eraseReader } from "../openai/erase.ts";
import { modelBody } from "../openai/models.ts";
import { planBody } from "../openai/plan.ts";
import { requireModel } from "../openai/prepare.ts";
import type { PreparedRequest } from "../openai/reader.ts";
import { respond } from "../openai/respond.ts";
import { inPlace } from "../place.ts";

/** OpenAI's endpoints, the plan of one of their requests, and the erasure of one's text. */
export function openAIRoutes(fastify: FastifyInstance, context: ServerContext): void {
  const readCompletion = completionReader(context.limits);
  const readChat = chatReader(context.limits);
  const readErasure = eraseReader(context.limits);
  const prepared = (read: typeof readChat, request: FastifyRequest, signal: AbortSignal): Promise<PreparedRequest> =>
    read(context.lifecycle.require(), request.caller, request.body, signal);
  const answered = (read: typeof readChat) => (request: FastifyRequest, reply: FastifyReply) =>
    respond(context, request, reply, async (signal) => (await prepared(read, request, signal)).answer);

  fastify.post("/v1/completions", answered(readCompletion));
  fastify.post("/v1/chat/completions", answered(readChat));
  fastify.post("/v1/directives/plan", (request, reply) =>
    inPlace(context, reply, async (signal) => {
      const read = isChat(request.body) ? readChat : readCompletion;
      return planBody(context.lifecycle.require(), await prepared(read, request, signal));
    }),
  );
  fastify.post("/v1/cache/erase", (request, reply) =>
    inPlace(context, reply, async (signal) => {
      const service = context.lifecycle.require();
      return erase(service, request.caller, await readErasure(service, request.body, signal));
    }),
  );
  fastify.get("/v1/models", async () => {
    const service = context.lifecycle.require();
    return { object: "list", data: [service.id, ...service.aliases].map((id) => modelBody(service, id)) };
  });
  fastify.get("/v1/models/*", async (request) => {
    const service = context.lifecycle.require();
    const id = (request.params as { "*": string })["*"];
    requireModel(service, id);
    return modelBody(service, id);
  });
}

function isChat(body: unknown): boolean {
  if (typeof body !== "object" || body === null) return false;
  if ("messages" in body && "prompt" in body) {
    throw new ServerError("field_invalid", "prompt: a plan is of a chat body (messages) or of a completions body (prompt), not of both", { param: "prompt" });
  }
  return !("prompt" in body);
}
