import { mkdtempSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRuntime, readModel, writeTinyModel } from "@palimpsest/kernels-cuda";
import type { Registry } from "@palimpsest/directives";
import { createApp, serviceOf, type App, type AppOptions, type Service } from "@palimpsest/server";
import OpenAI from "openai";

export interface TestServer {
  client: OpenAI;
  address: string;
  app: App;
  service: Service;
  close(): Promise<void>;
}

export interface TestServerOptions extends AppOptions {
  pages?: number;
  /** Instead of the model file's own. */
  chatTemplate?: string;
  registry?: Registry;
}

/** A listening server on a model file, in this process. */
export async function openServer(path: string, { pages = 512, chatTemplate, registry, ...appOptions }: TestServerOptions = {}): Promise<TestServer> {
  const runtime = await openRuntime(path, { pages, kernels: "auto", cacheDtype: "f16" });
  const { tokenizer } = await readModel(path);
  const service = serviceOf(runtime, chatTemplate === undefined ? tokenizer : { ...tokenizer, chatTemplate }, { id: "model", registry });
  const app = createApp(appOptions);
  app.lifecycle.ready(service);
  await app.fastify.listen({ port: 0, host: "127.0.0.1" });
  const address = `http://127.0.0.1:${(app.fastify.server.address() as AddressInfo).port}`;
  return {
    client: new OpenAI({ baseURL: `${address}/v1`, apiKey: "any key", maxRetries: 0 }),
    address,
    app,
    service,
    close: async () => {
      await app.fastify.close();
      await service.dispose();
    },
  };
}

/** A generated model with a tokenizer and a chat template: everything is real but what it says. */
export async function tinyModel(): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), "palimpsest-")), "tiny.gguf");
  await writeTinyModel(path, { contextLength: 4096 });
  return path;
}
