import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Report } from "@palimpsest/engine";
import { readTenants } from "@palimpsest/server";

/** Report of a request, as the wire has it. */
export type CacheReport = Report & { erased?: Receipt };

export interface Receipt {
  time: string;
  paths: string[];
  erased_tokens: number;
  cells: Record<string, number>;
  readers: number;
  complete: boolean;
}

/** What a whole answer and a streamed one have in common. */
export interface Outcome {
  text: string;
  ids: number[];
  logprobs: number[];
  cache: CacheReport;
}

interface Choice {
  text?: string;
  message?: { content: string };
  delta?: { content?: string };
  token_ids?: number[];
  logprobs: { token_logprobs?: number[]; content?: { logprob: number }[] } | null;
}
interface Chunk {
  choices: Choice[];
  cache?: CacheReport;
}

/** Calls of one server, each with a tenant's key. */
export class Wire {
  readonly #address: string;

  constructor(address: string) {
    this.#address = address;
  }

  async send(path: string, body: object, key: string, signal?: AbortSignal): Promise<Response> {
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
    return fetch(`${this.#address}${path}`, { method: "POST", headers, body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) });
  }

  async post<T>(path: string, body: object, key: string): Promise<T> {
    const response = await this.send(path, body, key);
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async get<T>(path: string, key: string): Promise<T> {
    const response = await fetch(`${this.#address}${path}`, { headers: { authorization: `Bearer ${key}` } });
    return (await response.json()) as T;
  }

  /** An answer of a completion (`prompt`) or chat (`messages`) with its token ids and log-probabilities, whole or put together from a stream. */
  async answer(body: object, key: string, stream = false): Promise<Outcome> {
    const chat = "messages" in body;
    const path = chat ? "/v1/chat/completions" : "/v1/completions";
    const asked = { temperature: 0, ignore_eos: true, return_token_ids: true, logprobs: chat ? true : 0, cache: { report: true }, ...body, stream };
    const chunks = stream ? await this.#stream(path, asked, key) : [await this.post<Chunk>(path, asked, key)];
    const choices = chunks.flatMap((chunk) => chunk.choices);
    return {
      text: choices.map(({ text, message, delta }) => text ?? message?.content ?? delta?.content ?? "").join(""),
      ids: choices.flatMap(({ token_ids: ids }) => ids ?? []),
      logprobs: choices.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? logprobs?.content?.map(({ logprob }) => logprob) ?? []),
      cache: chunks.findLast(({ cache }) => cache !== undefined)!.cache!,
    };
  }

  /** The report that a request would get now. */
  plan(body: object, key: string): Promise<CacheReport> {
    return this.post("/v1/directives/plan", body, key);
  }

  async #stream(path: string, body: object, key: string): Promise<Chunk[]> {
    const response = await this.send(path, body, key);
    const frames = (await response.text()).split("\n\n").filter((frame) => frame.startsWith("data: "));
    if (frames.pop() !== "data: [DONE]") throw new Error("a stream did not end with [DONE]");
    return frames.map((frame) => JSON.parse(frame.slice("data: ".length)) as Chunk);
  }
}

/** Tenants of these names, each with its name as key, and an operator. */
export function tenantsOf(...names: string[]): ReturnType<typeof readTenants> {
  const file = join(mkdtempSync(join(tmpdir(), "tenants-")), "tenants.json");
  writeFileSync(file, JSON.stringify({ tenants: Object.fromEntries(names.map((name) => [name, [name]])), operators: ["operator"] }));
  return readTenants(file);
}

/** The cells of a report, each counted once. */
export function cellsOf({ cached_tokens: cached, repositioned_tokens: repositioned, computed_tokens: computed, skipped_tokens: skipped }: CacheReport): number {
  return cached + repositioned + computed + skipped;
}
