import type { FastifyInstance } from "fastify";
import type { ServerContext } from "../context.ts";
import { openApiDocument } from "../openapi.ts";
import { docsPage, startPage } from "../pages.ts";

/** The start page, the documentation page and the machine-readable description. */
export function welcomeRoutes(fastify: FastifyInstance, context: ServerContext): void {
  const document = openApiDocument(context.limits);
  fastify.get("/", async (request, reply) => {
    const address = `${request.protocol}://${request.host}`;
    return reply.type("text/html; charset=utf-8").send(startPage(address, context.lifecycle));
  });
  fastify.get("/openapi.json", async () => document);
  fastify.get("/docs", async (_request, reply) => reply.type("text/html; charset=utf-8").send(docsPage(document)));
}
