import { ServerError } from "../errors.ts";

/** The few calls that the command line makes of a server, this one or a running one. */
export class Client {
  private readonly address: string;

  constructor(address: string) {
    this.address = address.replace(/\/+$/, "");
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    const response = await this.send(path, body);
    return (await response.json()) as T;
  }

  /** The data of each event of a stream, until `[DONE]`. One decoder for the whole response: a character may span two reads. */
  async *stream(path: string, body: object, signal: AbortSignal): AsyncGenerator<Record<string, unknown>> {
    const response = await this.send(path, { ...body, stream: true }, signal);
    let rest = "";
    for await (const chunk of (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream())) {
      const frames = (rest + chunk).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        if (!frame.startsWith("data: ") || frame === "data: [DONE]") continue;
        const data = JSON.parse(frame.slice("data: ".length)) as Record<string, unknown>;
        if (data["error"] !== undefined) throw refusal(data);
        yield data;
      }
    }
  }

  private async send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const url = `${this.address}${path}`;
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: signal ?? null };
    const response = await fetch(url, init).catch((cause: unknown) => {
      if (signal?.aborted === true) throw cause;
      throw new ServerError("server_unreachable", `no answer from ${url}; is a server running there?`, { cause });
    });
    if (response.ok) return response;
    throw refusal((await response.json().catch(() => ({}))) as Record<string, unknown>);
  }
}

function refusal(body: Record<string, unknown>): ServerError {
  const { message, param } = (body["error"] ?? {}) as { message?: string; param?: string };
  return new ServerError("server_unreachable", message ?? "the server refused the request", { param });
}
