import type { IncomingMessage } from "node:http";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { anthropicErrorBody, openAIErrorBody, publicError, ServerError } from "./errors.ts";
import type { ServerLimits } from "./limits.ts";

/** Errors come in the dialect of the endpoint: Anthropic's under `/v1/messages`, OpenAI's everywhere else. */
export function installDialects(app: FastifyInstance, limits: Readonly<ServerLimits>): void {
  app.setErrorHandler(async (thrown, request, reply) => {
    const error = publicError(fromFramework(thrown, limits));
    if (error.kind === "internal") request.log.error(thrown);
    if (error.code === "body_too_large") await discard(request.raw, limits);
    return sendError(request, reply, error);
  });
  app.setNotFoundHandler((request, reply) => {
    const methods = methodsOf(app, request.url);
    if (methods.length === 0) {
      return sendError(request, reply, publicError(new ServerError("route_not_found", `there is no endpoint ${pathOf(request.url)}; GET /openapi.json lists them`)));
    }
    void reply.header("allow", methods.join(", "));
    const message = `${pathOf(request.url)} takes ${methods.join(" or ")}, not ${request.method}`;
    return sendError(request, reply, publicError(new ServerError("method_not_allowed", message)));
  });
}

export function sendError(request: FastifyRequest, reply: FastifyReply, error: ReturnType<typeof publicError>): FastifyReply {
  if (error.retryAfterSeconds !== null) void reply.header("retry-after", String(Math.ceil(error.retryAfterSeconds)));
  const body = pathOf(request.url).startsWith("/v1/messages") ? anthropicErrorBody(error) : openAIErrorBody(error);
  return reply.code(error.status).type("application/json; charset=utf-8").send(body);
}

export const pathOf = (url: string) => url.split("?", 1)[0] ?? url;

/**
 * Reads on past a refused body, for a while: a client that still writes would meet a closed connection, and never read why. Ends with
 * the body, or when nothing comes any more, or when too much has come.
 */
function discard(body: IncomingMessage, { discardBytesMax, discardIdleMs }: Readonly<ServerLimits>): Promise<void> {
  return new Promise((resolve) => {
    let left = discardBytesMax;
    const finish = () => {
      clearTimeout(idle);
      body.off("data", onData).off("end", finish).off("close", finish);
      resolve();
    };
    const onData = (chunk: Buffer) => {
      left -= chunk.length;
      idle.refresh();
      if (left <= 0) finish();
    };
    const idle = setTimeout(finish, discardIdleMs);
    body.on("data", onData).once("end", finish).once("close", finish).resume();
  });
}

/** Fastify's own refusals in our words; everything else as it is. */
export function fromFramework(thrown: unknown, limits: Readonly<ServerLimits>): unknown {
  if (!(thrown instanceof Error) || thrown instanceof ServerError) return thrown;
  const { code = "", statusCode } = thrown as Partial<FastifyError>;
  if (!code.startsWith("FST_")) return thrown;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new ServerError("body_too_large", `the body exceeds ${limits.bodyBytesMax} bytes; send less text, or drop it on the client's side`);
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new ServerError("content_type_invalid", "the body must be sent with content-type: application/json");
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new ServerError("request_invalid", thrown.message);
  return thrown;
}

const METHODS = ["GET", "POST"] as const;

function methodsOf(app: FastifyInstance, url: string): string[] {
  return METHODS.filter((method) => app.findRoute({ url: pathOf(url), method }) !== null || matchesModel(url, method));
}

/** `findRoute` knows routes by their pattern; this is the one with a parameter. */
const matchesModel = (url: string, method: string) => method === "GET" && pathOf(url).startsWith("/v1/models/");
