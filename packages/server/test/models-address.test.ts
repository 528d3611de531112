import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ModelError, type PullProgress, pullModel, resolveModel } from "../src/models/index.ts";

const MODEL = Buffer.concat([Buffer.from("GGUF"), randomBytes(300_000)]);
const OTHER = Buffer.concat([Buffer.from("GGUF"), randomBytes(200_000)]);
const sum = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

/** One answer of the test's file server; the next request gets the next one, the last one stays. */
interface Answer {
  body: Buffer;
  etag?: string | null;
  lastModified?: string;
  /** Cuts the connection after so many bytes of the body. */
  cutAfter?: number;
  /** Answers ranges. Default true. */
  ranges?: boolean;
  /** Does not look at If-Range. */
  ignoresIfRange?: boolean;
  status?: number;
  /** Sends no length. */
  chunked?: boolean;
}

class FileServer {
  answers: Answer[] = [];
  readonly requests: IncomingMessage["headers"][] = [];
  readonly #server = createServer((request, response) => this.#answer(request, response));

  async start(): Promise<string> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(request.headers);
    const answer = (this.answers.length > 1 ? this.answers.shift() : this.answers[0]) as Answer;
    const { body, etag = '"one"', status = 200, cutAfter = body.length, ranges = true } = answer;
    const headers: Record<string, string | number> = {};
    if (etag !== null) headers["etag"] = etag;
    if (answer.lastModified !== undefined) headers["last-modified"] = answer.lastModified;
    const first = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? Number.NaN);
    const isCurrent = answer.ignoresIfRange === true || [undefined, etag, answer.lastModified].includes(request.headers["if-range"] as string | undefined);
    if (status >= 300) {
      response.writeHead(status).end("<html>error page</html>");
    } else if (ranges && isCurrent && first >= body.length) {
      response.writeHead(416, { "content-range": `bytes */${body.length}` }).end();
    } else {
      const start = ranges && isCurrent && first > 0 ? first : 0;
      if (start > 0) headers["content-range"] = `bytes ${start}-${body.length - 1}/${body.length}`;
      if (answer.chunked !== true) headers["content-length"] = body.length - start;
      response.writeHead(start > 0 ? 206 : 200, headers);
      if (cutAfter >= body.length - start) response.end(body.subarray(start));
      else response.write(body.subarray(start, start + cutAfter), () => setTimeout(() => response.destroy(), 20));
    }
  }
}

let folder: string;
let server: FileServer;
let origin: string;

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "palimpsest-models-"));
  server = new FileServer();
  origin = await server.start();
});

afterEach(() => {
  server.stop();
  rmSync(folder, { recursive: true });
});

const pull = (address: string, more = {}) => pullModel(address, { folder, retryMs: 5, ...more });

async function refusal(address: string, more = {}): Promise<ModelError> {
  const error = await pull(address, more).then((file) => file, (thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ModelError);
  return error as ModelError;
}

/** Names of all files in the cache folder but the model's own. */
const leftovers = () => readdirSync(folder).filter((name) => !name.endsWith(".gguf"));

describe("a model by its address", () => {
  test("is fetched once, with progress, and then found without the network", async () => {
    server.answers = [{ body: MODEL }];
    const seen: PullProgress[] = [];
    const file = await pull(`${origin}/some/My%20Model.gguf?download=true#sha256=${sum(MODEL)}`, { onProgress: (progress: PullProgress) => seen.push(progress) });
    expect(readFileSync(file).equals(MODEL)).toBe(true);
    expect(path.basename(file)).toMatch(/^My_Model\.[0-9a-f]{8}\.gguf$/);
    expect(leftovers()).toEqual([]);
    expect(seen.some(({ phase, bytes, total }) => phase === "downloading" && bytes === total && total === MODEL.length)).toBe(true);
    expect(seen.at(-1)).toEqual({ phase: "verifying", bytes: MODEL.length, total: MODEL.length });
    server.stop();
    expect(await pull(`${origin}/some/My%20Model.gguf?download=true#sha256=${sum(MODEL)}`)).toBe(file);
    expect(server.requests.length).toBe(1);
  });

  test("continues where the connection broke, as often as it breaks", async () => {
    server.answers = [{ body: MODEL, cutAfter: 100_000 }, { body: MODEL, cutAfter: 60_000 }, { body: MODEL, cutAfter: 60_000 }, { body: MODEL }];
    const file = await pull(`${origin}/m.gguf`, { attemptsMax: 2 });
    expect(readFileSync(file).equals(MODEL)).toBe(true);
    expect(server.requests.map(({ range }) => range?.replace(/\d+/, (bytes) => (Number(bytes) > 0 ? "n" : bytes)))).toEqual([undefined, "bytes=n-", "bytes=n-", "bytes=n-"]);
    expect(server.requests[1]?.["if-range"]).toBe('"one"');
  });

  test("continues in the next call what an earlier one left", async () => {
    server.answers = [{ body: MODEL, cutAfter: 100_000 }, { body: MODEL, status: 503 }];
    const error = await refusal(`${origin}/m.gguf`, { attemptsMax: 2 });
    expect([error.kind, error.code]).toEqual(["capacity", "download_failed"]);
    expect(error.message).toMatch(/503.* bytes are kept/);
    server.answers = [{ body: MODEL }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests.at(-1)?.range).toMatch(/^bytes=[1-9]\d*-$/);
    expect(leftovers()).toEqual([]);
  });

  test("begins anew where the file changed meanwhile: by If-Range, and where the server does not look at that", async () => {
    const sameSize = Buffer.concat([Buffer.from("GGUF"), randomBytes(MODEL.length - 4)]);
    for (const ignoresIfRange of [false, true]) {
      server.answers = [{ body: sameSize, etag: '"old"', cutAfter: 90_000 }, { body: MODEL, etag: '"new"', ignoresIfRange }];
      const file = await pull(`${origin}/${ignoresIfRange}.gguf`);
      expect(readFileSync(file).equals(MODEL)).toBe(true);
    }
  });

  test("begins anew where the file has another size now, though nothing else tells", async () => {
    server.answers = [{ body: OTHER, etag: null, cutAfter: 90_000 }, { body: MODEL, etag: null }];
    const file = await pull(`${origin}/m.gguf#sha256=${sum(MODEL)}`);
    expect(readFileSync(file).equals(MODEL)).toBe(true);
  });

  test("begins anew where the server has no ranges", async () => {
    server.answers = [{ body: MODEL, ranges: false, cutAfter: 100_000 }, { body: MODEL, ranges: false }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests.length).toBe(2);
  });

  test("begins anew where neither a validator nor a sum could tell that the rest belongs to the beginning", async () => {
    server.answers = [{ body: MODEL, etag: null, cutAfter: 100_000 }, { body: MODEL, etag: null }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests[1]?.range).toBe(undefined);
    // A weak ETag says nothing about bytes; Last-Modified will do.
    server.answers = [{ body: MODEL, etag: 'W/"one"', lastModified: "Mon, 01 Jan 2024 00:00:00 GMT", cutAfter: 100_000 }, { body: MODEL, etag: 'W/"one"', lastModified: "Mon, 01 Jan 2024 00:00:00 GMT" }];
    expect(readFileSync(await pull(`${origin}/n.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests.at(-1)?.["if-range"]).toBe("Mon, 01 Jan 2024 00:00:00 GMT");
  });

  test("is whole where everything had arrived before the process was stopped", async () => {
    server.answers = [{ body: MODEL }];
    const file = await pull(`${origin}/m.gguf`);
    for (const total of [MODEL.length, null]) {
      writeFileSync(`${file}.partial`, MODEL);
      writeFileSync(`${file}.partial.json`, JSON.stringify({ validator: '"one"', total }));
      rmSync(file);
      expect(await pull(`${origin}/m.gguf`)).toBe(file);
      expect(readFileSync(file).equals(MODEL)).toBe(true);
    }
    expect(leftovers()).toEqual([]);
  });

  test("comes also without a length", async () => {
    server.answers = [{ body: MODEL, chunked: true, cutAfter: 100_000 }, { body: MODEL, chunked: true }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
  });

  test("with another sum is thrown away and never put in place", async () => {
    server.answers = [{ body: OTHER }];
    const error = await refusal(`${origin}/m.gguf#sha256=${sum(MODEL)}`);
    expect([error.kind, error.code]).toEqual(["data", "model_checksum_differs"]);
    expect(error.message).toContain(sum(OTHER));
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that is there already is held to a sum that is given now", async () => {
    server.answers = [{ body: OTHER }];
    const file = await pull(`${origin}/m.gguf`);
    expect(await pull(`${origin}/m.gguf#sha256=${sum(OTHER)}`)).toBe(file);
    const error = await refusal(`${origin}/m.gguf#sha256=${sum(MODEL)}`);
    expect(error.code).toBe("model_checksum_differs");
    expect(existsSync(file)).toBe(true);
  });

  test("that is no GGUF file is refused", async () => {
    server.answers = [{ body: Buffer.from("<html>Please log in</html>") }];
    const error = await refusal(`${origin}/m.gguf`);
    expect([error.kind, error.code]).toEqual(["data", "model_file_wrong"]);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("that the server does not give is refused at once; a broken server is asked again", async () => {
    server.answers = [{ body: MODEL, status: 404 }];
    const error = await refusal(`${origin}/m.gguf`);
    expect([error.kind, error.code, server.requests.length]).toEqual(["invalid", "model_address_refused", 1]);
    server.answers = [{ body: MODEL, status: 500 }, { body: MODEL, status: 429 }, { body: MODEL }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
  });

  test("whose server cannot be reached fails with what to do", async () => {
    server.stop();
    const error = await refusal(`${origin}/m.gguf`, { attemptsMax: 2 });
    expect([error.kind, error.code]).toEqual(["capacity", "download_failed"]);
    expect(error.message).toContain("ECONNREFUSED");
  });

  test("can be stopped, and continued later", async () => {
    server.answers = [{ body: MODEL, cutAfter: 100_000 }, { body: MODEL, status: 500 }];
    const controller = new AbortController();
    const onProgress = ({ bytes }: PullProgress) => bytes >= 100_000 && controller.abort();
    const error = await refusal(`${origin}/m.gguf`, { signal: controller.signal, onProgress, retryMs: 60_000 });
    expect([error.kind, error.code]).toEqual(["cancelled", "download_cancelled"]);
    server.answers = [{ body: MODEL }];
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests.at(-1)?.range).toMatch(/^bytes=[1-9]/);
  });

  test("is fetched once by two that start together", async () => {
    server.answers = [{ body: MODEL }];
    const phases: string[] = [];
    const both = await Promise.all([pull(`${origin}/m.gguf`), pull(`${origin}/m.gguf`, { onProgress: ({ phase }: PullProgress) => phases.push(phase) })]);
    expect(both[0]).toBe(both[1]);
    expect(server.requests.length).toBe(1);
    expect(leftovers()).toEqual([]);
  });

  test("a partial file without what belongs to it is not trusted", async () => {
    server.answers = [{ body: MODEL }];
    const { file } = await resolveModel(`${origin}/m.gguf`, { folder });
    writeFileSync(`${file}.partial`, OTHER);
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    rmSync(file);
    writeFileSync(`${file}.partial`, MODEL);
    truncateSync(`${file}.partial`, 1000);
    writeFileSync(`${file}.partial.json`, "{ not json");
    expect(readFileSync(await pull(`${origin}/m.gguf`)).equals(MODEL)).toBe(true);
    expect(server.requests.every(({ range }) => range === undefined)).toBe(true);
  });
});

test("addresses that cannot be meant are refused by name", async () => {
  for (const address of ["ftp://host/m.gguf", "hf://owner/repository", "http://", "https://host/m.gguf#main", "https://host/m.gguf#sha256=12", "https://user:secret@host/m.gguf", "https://host/%zz.gguf"]) {
    const error = await refusal(address);
    expect([error.kind, error.code]).toEqual(["invalid", "model_address_invalid"]);
    expect(error.message).not.toContain("secret");
  }
});

test("addresses that end alike have files of their own", async () => {
  const files = await Promise.all(["https://a/m.gguf", "https://b/m.gguf", "https://a/m.gguf?v=2", "https://a/"].map((address) => resolveModel(address, { folder })));
  expect(new Set(files.map(({ file }) => file)).size).toBe(4);
});
