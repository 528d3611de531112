import { createApp, type App } from "../app.ts";
import { ServerError } from "../errors.ts";
import { loadService, type LoadOptions } from "../load.ts";
import { DEFAULT_MODEL, resolveModel } from "../models/index.ts";
import type { Service } from "../service.ts";
import { OPEN_ACCESS, readTenants } from "../tenants.ts";
import { VERSION } from "../version.ts";
import { readyText } from "../welcome.ts";
import type { FlagValues } from "./flags.ts";
import { line, ProgressBar, type Streams } from "./io.ts";
import { findModel } from "./models.ts";
import { loadVerbs } from "./verbs.ts";

export interface RunningServer {
  app: App;
  address: string;
  /** Ends the server: running answers may take `waitMs`. */
  stop(waitMs: number): Promise<void>;
}

/** Like `LoadOptions`, with a name that may still have to be fetched. */
export interface ModelOptions extends Omit<LoadOptions, "path" | "id" | "registry"> {
  name: string | undefined;
  /** Packages with further verbs. */
  verbs?: readonly string[] | undefined;
}

export interface ServeOptions {
  host: string;
  port: number;
  model: ModelOptions;
  tenantsFile?: string | undefined;
  corsOrigin?: string | undefined;
  logLevel?: string | undefined;
}

/** `palimpsest serve`: returns when a signal ended the server. */
export async function serve(flags: FlagValues, streams: Streams): Promise<number> {
  const drainMs = (flags.number("drain-s") ?? 30) * 1000;
  line(streams.output, `Palimpsest ${VERSION}`);
  const interrupted = firstSignal();
  const server = await startServer(serveOptions(flags), streams, (address) => line(streams.output, `listening on ${address}`), interrupted);
  if (server === null) return 0;
  line(streams.output, readyText(server.service, server.address));
  await interrupted;
  line(streams.errors, `ending: running answers have ${drainMs / 1000} s; a second signal stops at once`);
  const second = firstSignal();
  await Promise.race([server.stop(drainMs), second]);
  return 0;
}

/** Listens first, so that a busy port is known before a model is loaded and `/health` can say how far it is. Null: interrupted. */
export async function startServer(
  options: ServeOptions,
  streams: Streams,
  onListening: (address: string) => void = () => {},
  interrupted: Promise<unknown> = new Promise(() => {}),
): Promise<(RunningServer & { service: Service }) | null> {
  // What names no model at all, or no verbs, is said before anything listens.
  await resolveModel(options.model.name ?? DEFAULT_MODEL);
  const registry = await loadVerbs(options.model.verbs ?? [], process.cwd());
  const app = createApp({
    tenants: options.tenantsFile === undefined ? OPEN_ACCESS : readTenants(options.tenantsFile),
    ...(options.corsOrigin === undefined ? {} : { corsOrigin: options.corsOrigin }),
    logLevel: options.logLevel ?? "warn",
  });
  const address = await listen(app, options.host, options.port);
  onListening(address);
  const loading = load({ ...options.model, registry }, streams, (fraction) => {
    app.lifecycle.progress = fraction;
  });
  const service = await Promise.race([loading, interrupted.then(() => null)]).catch(async (error: unknown) => {
    await app.fastify.close();
    throw error;
  });
  if (service === null) return null;
  app.lifecycle.ready(service);
  const stop = async (waitMs: number) => {
    await app.lifecycle.drain(waitMs);
    await app.fastify.close();
    await service.dispose();
  };
  return { app, address, service, stop };
}

async function load({ name, ...options }: ModelOptions & Pick<LoadOptions, "registry">, streams: Streams, onProgress: (fraction: number) => void): Promise<Service> {
  const { path, id, progress } = await findModel(name, streams, onProgress);
  const bar = new ProgressBar(streams.errors, `loading ${id}`);
  return loadService({ ...options, path, id }, (fraction) => {
    bar.show(fraction);
    onProgress(progress + (1 - progress) * fraction);
  });
}

export function modelOptions(flags: FlagValues): ModelOptions {
  if (flags.number("pages") !== undefined && flags.number("cache-mem") !== undefined) {
    throw new ServerError("flag_invalid", "--pages and --cache-mem say the same thing; give one of them", { param: "--cache-mem" });
  }
  return {
    name: flags.text("model"),
    contextLength: flags.number("ctx"),
    pages: flags.number("pages"),
    cacheBytes: flags.number("cache-mem"),
    pageSize: flags.number("page-size"),
    hostBytes: flags.number("cache-host"),
    disk: diskOptions(flags),
    cacheDtype: flags.text("cache-dtype") as ModelOptions["cacheDtype"],
    kernels: flags.text("kernels") as ModelOptions["kernels"],
    threads: flags.number("threads"),
    aliases: flags.texts("alias"),
    verbs: flags.texts("verbs"),
  };
}

function diskOptions(flags: FlagValues): ModelOptions["disk"] {
  const path = flags.text("cache-disk");
  if (path !== undefined) return { path, bytesMax: flags.number("cache-disk-size") ?? DISK_BYTES, keyFile: flags.text("cache-key") };
  for (const name of ["cache-disk-size", "cache-key"]) {
    if (flags.number(name) === undefined && flags.text(name) === undefined) continue;
    throw new ServerError("flag_invalid", `--${name} says something of the folder that --cache-disk names; give that as well`, { param: `--${name}` });
  }
  return undefined;
}

const DISK_BYTES = 16 * 1024 ** 3;

function serveOptions(flags: FlagValues): ServeOptions {
  return {
    host: flags.text("host") ?? "127.0.0.1",
    port: flags.number("port") ?? 8080,
    model: modelOptions(flags),
    tenantsFile: flags.text("tenants"),
    corsOrigin: flags.text("cors"),
    logLevel: flags.text("log-level"),
  };
}

async function listen(app: App, host: string, port: number): Promise<string> {
  try {
    await app.fastify.listen({ host, port });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    await app.fastify.close();
    if (code === "EADDRINUSE") throw new ServerError("port_busy", `port ${port} is busy; choose another one with --port N (0 takes a free one)`, { param: "--port", cause });
    if (code === "EACCES") throw new ServerError("port_busy", `port ${port} may not be used by this user; choose one above 1023 with --port N`, { param: "--port", cause });
    throw new ServerError("flag_invalid", `cannot listen on --host ${host}: ${cause instanceof Error ? cause.message : String(cause)}`, { param: "--host", cause });
  }
  const bound = app.fastify.server.address();
  const boundPort = typeof bound === "object" && bound !== null ? bound.port : port;
  return `http://${host.includes(":") ? `[${host}]` : host}:${boundPort}`;
}

function firstSignal(): Promise<void> {
  return new Promise((resolve) => {
    const onSignal = () => {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
      resolve();
    };
    process.on("SIGINT", onSignal);
    process.on("SIGTERM", onSignal);
  });
}
