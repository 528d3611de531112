import type { Socket } from "node:net";
import Fastify, { LogController, type FastifyInstance } from "fastify";
import type { ServerContext } from "./context.ts";
import { fromFramework, installDialects, pathOf, sendError } from "./dialect.ts";
import { openAIErrorBody, publicError, ServerError } from "./errors.ts";
import { Lifecycle } from "./lifecycle.ts";
import { DEFAULT_LIMITS, type ServerLimits } from "./limits.ts";
import { Metrics } from "./metrics.ts";
import { anthropicRoutes } from "./routes/anthropic.ts";
import { openAIRoutes } from "./routes/openai.ts";
import { stateRoutes } from "./routes/state.ts";
import { textRoutes } from "./routes/text.ts";
import { welcomeRoutes } from "./routes/welcome.ts";
import { identify, OPEN_ACCESS, type Caller, type TenantTable } from "./tenants.ts";

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller;
  }
}

export interface AppOptions {
  lifecycle?: Lifecycle;
  limits?: Partial<ServerLimits>;
  tenants?: TenantTable;
  /** Origin that browsers may call from; "*" is any. */
  corsOrigin?: string;
  /** Of pino; logs are JSON lines on standard error. Default: none. */
  logLevel?: string;
}

export interface App {
  fastify: FastifyInstance;
  lifecycle: Lifecycle;
}

/** The HTTP layer around a lifecycle: complete before the model is loaded, so that `/health` can say how far it is. */
export function createApp(options: AppOptions = {}): App {
  const context: ServerContext = {
    lifecycle: options.lifecycle ?? new Lifecycle(),
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    metrics: new Metrics(),
    tenants: options.tenants ?? OPEN_ACCESS,
  };
  const fastify = Fastify({
    bodyLimit: context.limits.bodyBytesMax,
    logger: options.logLevel === undefined ? false : { level: options.logLevel, stream: process.stderr },
    logController: new LogController({ disableRequestLogging: options.logLevel !== "debug" && options.logLevel !== "trace" }),
    return503OnClosing: false,
    forceCloseConnections: true,
    clientErrorHandler: answerMalformed,
    // An address that cannot be decoded reaches no route, and no error handler of one.
    frameworkErrors: (error, request, reply) => void sendError(request, reply, publicError(fromFramework(error, context.limits))),
  });
  acceptJsonOnly(fastify);
  installDialects(fastify, context.limits);
  installHooks(fastify, context, options.corsOrigin);
  openAIRoutes(fastify, context);
  anthropicRoutes(fastify, context);
  textRoutes(fastify, context);
  stateRoutes(fastify, context);
  welcomeRoutes(fastify, context);
  return { fastify, lifecycle: context.lifecycle };
}

/** Only JSON is read: a page in a browser can send other types to a local server without asking. */
function acceptJsonOnly(fastify: FastifyInstance): void {
  fastify.removeAllContentTypeParsers();
  // Bytes that are no UTF-8 are refused: replaced silently, they would be another prompt.
  const utf8 = new TextDecoder("utf-8", { fatal: true });
  fastify.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, bytes, done) => {
    try {
      done(null, JSON.parse(utf8.decode(bytes as Buffer)));
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : "it cannot be parsed";
      done(new ServerError("json_invalid", `the body is no JSON: ${reason}`, { cause }));
    }
  });
}

/** Paths that anyone may read. */
const OPEN_PATHS: ReadonlySet<string> = new Set(["/", "/health", "/docs", "/openapi.json"]);

function installHooks(fastify: FastifyInstance, context: ServerContext, corsOrigin: string | undefined): void {
  fastify.decorateRequest("caller");
  fastify.addHook("onRequest", async (request, reply) => {
    if (corsOrigin !== undefined) {
      void reply.header("access-control-allow-origin", corsOrigin).header("vary", "origin");
      if (request.method === "OPTIONS") {
        const wanted = request.headers["access-control-request-headers"] ?? "authorization, content-type";
        return reply.headers({ "access-control-allow-methods": "GET, POST", "access-control-allow-headers": wanted, "access-control-max-age": "600" }).code(204).send();
      }
    }
    if (context.lifecycle.phase === "draining") void reply.header("connection", "close");
    if (!OPEN_PATHS.has(pathOf(request.url))) request.caller = identify(context.tenants, request.headers);
  });
  fastify.addHook("onResponse", async (request, reply) => {
    const endpoint = request.routeOptions.url ?? "unknown";
    context.metrics.add("palimpsest_requests_total", "Requests answered, by endpoint and status.", 1, { endpoint, status: String(reply.statusCode) });
  });
}

/** Bytes that are no HTTP request never reach a route; they get the same shape of error. */
function answerMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const body = JSON.stringify(openAIErrorBody(publicError(new ServerError("request_invalid", `the HTTP request is malformed: ${error.message}`))));
  socket.end(`HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}
