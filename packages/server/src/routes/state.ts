import type { EngineState } from "@palimpsest/engine";
import type { FastifyInstance } from "fastify";
import type { ServerContext } from "../context.ts";
import type { Service } from "../service.ts";
import { requireOperator } from "../tenants.ts";
import { tierGauges, tiersBody } from "./tiers.ts";

/** Health, metrics, and the state of the cache. */
export function stateRoutes(fastify: FastifyInstance, context: ServerContext): void {
  const { lifecycle, limits, metrics } = context;

  fastify.get("/health", async (_request, reply) => {
    const service = lifecycle.loaded;
    if (lifecycle.phase === "ready" && service !== undefined) {
      const state = service.engine.state();
      const status = state.damaged ? "failed" : (state.stepMs ?? 0) > limits.stepMsMax ? "stalled" : "ok";
      if (status !== "ok") void reply.code(503);
      return { status, ...healthOf(service, state) };
    }
    void reply.code(503).header("retry-after", "2");
    return lifecycle.phase === "draining" ? { status: "draining", requests: lifecycle.requests } : { status: "loading", progress: Math.round(lifecycle.progress * 1000) / 1000 };
  });

  fastify.get("/metrics", async (request, reply) => {
    requireOperator(request.caller);
    const service = lifecycle.loaded;
    if (service !== undefined) gauges(context, service);
    void reply.type("text/plain; version=0.0.4; charset=utf-8");
    return metrics.render();
  });

  fastify.get("/v1/cache", async (request) => {
    requireOperator(request.caller);
    const service = lifecycle.require();
    const state = service.engine.state();
    const memory = service.memory();
    return {
      object: "cache",
      model: service.id,
      cache_dtype: service.cacheDtype,
      page_size: state.pageSize,
      pages: state.pages,
      requests: { running: state.running, waiting: state.waiting },
      ...(memory !== null && { memory_bytes: memory }),
      ...(state.tiers !== null && tiersBody(state.tiers)),
    };
  });
  fastify.get("/v1/cache/tree", async (request) => {
    requireOperator(request.caller);
    return { object: "cache.tree", ...lifecycle.require().engine.state().tree };
  });
  fastify.get("/v1/cache/pages", async (request) => {
    requireOperator(request.caller);
    const { pageSize, pages, promisedPages } = lifecycle.require().engine.state();
    return { object: "cache.pages", page_size: pageSize, ...pages, promised: promisedPages };
  });
}

function healthOf(service: Service, state: EngineState): object {
  return {
    model: service.id,
    kernels: service.level,
    level: service.level,
    cache_dtype: service.cacheDtype,
    cell_bytes: service.pool.pageBytes / service.pool.pageSize,
    threads: service.threads,
    context_length: service.contextLength,
    requests: { running: state.running, waiting: state.waiting },
    last_step_ms: state.lastStepMs,
    step_ms: state.stepMs,
    oldest_waiting_ms: state.oldestWaitingMs,
  };
}

function gauges({ metrics }: ServerContext, service: Service): void {
  const state = service.engine.state();
  for (const how of ["free", "cached", "leased", "held"] as const) metrics.set("palimpsest_pages", "Pages of the pool, each counted once.", state.pages[how], { state: how });
  for (const [of, bytes] of Object.entries(service.memory() ?? {})) metrics.set("palimpsest_memory_bytes", "Bytes held after the last step.", bytes, { of });
  if (state.tiers !== null) tierGauges(metrics, state.tiers);
  metrics.set("palimpsest_requests_running", "Requests in the batch.", state.running);
  metrics.set("palimpsest_requests_waiting", "Requests waiting for pages or a place.", state.waiting);
  metrics.count("palimpsest_steps_total", "Forward steps since the start.", state.steps);
  if (state.lastStepMs !== null) metrics.set("palimpsest_last_step_age_seconds", "Time since the last forward step ended.", state.lastStepMs / 1000);
  metrics.set("palimpsest_info", "What runs.", 1, { model: service.id, kernels: service.level, cache_dtype: service.cacheDtype });
}

