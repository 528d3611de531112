import type { InjectOptions } from "fastify";
import { createApp, type App, type AppOptions } from "../src/app.ts";
import type { EngineLimits } from "@palimpsest/engine";
import { serviceOf } from "../src/assemble.ts";
import type { Service } from "../src/service.ts";
import { byteTokenizerData, ScriptedRuntime } from "./scripted.ts";

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  json: unknown;
}

export interface World {
  app: App;
  runtime: ScriptedRuntime;
  service: Service;
  raw(method: string, path: string, payload?: string | Buffer, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** The data of each event of a stream. */
  stream(path: string, body: object): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

export interface WorldOptions extends AppOptions {
  pages?: number;
  pageSize?: number;
  contextLength?: number;
  /** Instead of a plain ChatML. */
  chatTemplate?: string;
  engineLimits?: Partial<EngineLimits>;
}

/** The whole server above a scripted model, without a socket. */
export async function openWorld(options: WorldOptions = {}): Promise<World> {
  const runtime = new ScriptedRuntime(options);
  const service = serviceOf(runtime, byteTokenizerData(options.chatTemplate), { id: "scripted", aliases: ["other-name"], engineLimits: options.engineLimits });
  const app = createApp(options);
  app.lifecycle.ready(service);
  await app.fastify.ready();
  const raw: World["raw"] = async (method, path, payload, headers = {}) => {
    const type = payload === undefined ? {} : { "content-type": "application/json" };
    const response = await app.fastify.inject({
      method: method as NonNullable<InjectOptions["method"]>,
      url: path,
      headers: { ...type, ...headers },
      ...(payload === undefined ? {} : { payload }),
    });
    const isJson = String(response.headers["content-type"]).startsWith("application/json");
    return { status: response.statusCode, headers: response.headers, text: response.body, json: isJson ? (JSON.parse(response.body) as unknown) : undefined };
  };
  const post: World["post"] = (path, body, headers) => raw("POST", path, JSON.stringify(body), headers);
  return {
    app,
    runtime,
    service,
    raw,
    post,
    get: (path, headers) => raw("GET", path, undefined, headers),
    stream: async (path, body) => eventsOf((await post(path, { ...body, stream: true })).text),
    close: async () => {
      await app.fastify.close();
      await service.dispose();
    },
  };
}

/** Data of a finished stream; fails where it does not end with `[DONE]`. */
export function eventsOf(text: string): Record<string, unknown>[] {
  const frames = text.split("\n\n").filter((frame) => frame.startsWith("data: "));
  const last = frames.pop();
  if (last !== "data: [DONE]") throw new Error(`a stream ended with ${last}`);
  return frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as Record<string, unknown>);
}
