import type { ServerResponse } from "node:http";

/** What became of a frame: it is on its way, or the client is gone, or it took nothing for too long. */
export type Delivery = "ok" | "closed" | "stalled";

/** An event: its data, a text as it is or JSON, and its type where it has one. */
export interface Frame {
  data: unknown;
  event?: string;
}

export interface EventStreamOptions {
  /** Silence after which a comment is sent, so that no client or proxy takes a long prefill for a dead connection. */
  heartbeatMs: number;
  /** How long a full buffer may stay full. */
  stallMsMax: number;
  headers?: Readonly<Record<string, string>>;
}

/**
 * Server-sent events on a raw response. One frame at a time: a caller awaits `send` before the next, so at most one frame waits
 * beyond the socket's own buffer, and every frame is written exactly once.
 */
export class EventStream {
  private readonly response: ServerResponse;
  private readonly options: EventStreamOptions;
  private readonly onClose = () => this.markClosed();
  private heartbeat: NodeJS.Timeout | undefined;
  private gone = false;
  private full = false;

  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.response = response;
    this.options = options;
  }

  get closed(): boolean {
    return this.gone;
  }

  /** Sends the headers and a first comment at once, before anything is computed. */
  open(): void {
    this.response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      // Proxies of the nginx kind would collect the stream otherwise.
      "x-accel-buffering": "no",
      ...this.options.headers,
    });
    this.response.once("close", this.onClose);
    this.response.on("error", this.onClose);
    if (this.response.destroyed) return this.markClosed();
    this.response.write(": accepted\n\n");
    this.schedule();
  }

  /** A frame of data, with its type where it has one. Resolves when the client can take the next one, or when there will be none. */
  send(data: unknown, event?: string): Promise<Delivery> {
    return this.write(`${event === undefined ? "" : `event: ${event}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  }

  /** Ends the response, or drops the connection where the client takes nothing. */
  end(delivery: Delivery = "ok"): void {
    clearTimeout(this.heartbeat);
    this.response.off("close", this.onClose);
    if (delivery === "stalled") this.response.destroy();
    else if (!this.gone) this.response.end();
    this.gone = true;
  }

  private async write(frame: string): Promise<Delivery> {
    if (this.gone) return "closed";
    const ready = this.response.write(frame);
    if (!ready) {
      const delivery = await this.drained();
      if (delivery !== "ok") return delivery;
    }
    this.schedule();
    return this.gone ? "closed" : "ok";
  }

  /** A full buffer is neither an error nor a disconnect: wait until it drains, the client goes, or the time is up. */
  private drained(): Promise<Delivery> {
    this.full = true;
    return new Promise((resolve) => {
      const finish = (delivery: Delivery) => {
        clearTimeout(timer);
        this.response.off("drain", onDrain);
        this.response.off("close", onClosed);
        this.full = false;
        resolve(delivery);
      };
      const onDrain = () => finish("ok");
      const onClosed = () => finish("closed");
      const timer = setTimeout(() => finish("stalled"), this.options.stallMsMax);
      this.response.once("drain", onDrain);
      this.response.once("close", onClosed);
    });
  }

  private schedule(): void {
    clearTimeout(this.heartbeat);
    if (this.gone) return;
    this.heartbeat = setTimeout(() => {
      if (!this.full && !this.gone) this.response.write(": waiting\n\n");
      this.schedule();
    }, this.options.heartbeatMs);
  }

  private markClosed(): void {
    this.gone = true;
    clearTimeout(this.heartbeat);
  }
}
