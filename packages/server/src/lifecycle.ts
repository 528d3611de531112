import { ServerError } from "./errors.ts";
import type { Service } from "./service.ts";

export type Phase = "loading" | "ready" | "draining";

/** From start to end of one server: loading a model, serving it, letting the last answers end. */
export class Lifecycle {
  /** 0 … 1 while loading. */
  progress = 0;
  private service: Service | undefined;
  private draining = false;
  private readonly running = new Set<AbortController>();
  private idle: (() => void) | undefined;

  get phase(): Phase {
    if (this.draining) return "draining";
    return this.service === undefined ? "loading" : "ready";
  }

  get requests(): number {
    return this.running.size;
  }

  ready(service: Service): void {
    this.service = service;
    this.progress = 1;
  }

  /** The loaded model, for endpoints that need one. */
  require(): Service {
    if (this.draining) throw new ServerError("server_draining", "the server is shutting down; send the request to another one, or later", { retryAfterSeconds: 5 });
    if (this.service === undefined) {
      throw new ServerError("model_loading", `the model is still being loaded (${Math.round(this.progress * 100)} %)`, { retryAfterSeconds: 2 });
    }
    return this.service;
  }

  /** The loaded model, for looking at it: also while draining. */
  get loaded(): Service | undefined {
    return this.service;
  }

  /** Registers a request that holds a place until `leave`. Its controller ends it. */
  enter(requestsMax: number): AbortController {
    if (this.running.size >= requestsMax) {
      throw new ServerError("requests_exceeded", `${requestsMax} requests are waiting or running already; send it again in a moment`, { retryAfterSeconds: 1 });
    }
    const controller = new AbortController();
    this.running.add(controller);
    return controller;
  }

  leave(controller: AbortController): void {
    this.running.delete(controller);
    if (this.running.size === 0) this.idle?.();
  }

  /** Takes no new requests; resolves when the running ones have ended, at the latest after `waitMs`, when they are cancelled. */
  async drain(waitMs: number): Promise<void> {
    this.draining = true;
    if (this.running.size === 0) return;
    const ended = new Promise<void>((resolve) => {
      this.idle = resolve;
    });
    const timer = setTimeout(() => this.cancelAll(), waitMs);
    await ended;
    clearTimeout(timer);
  }

  cancelAll(): void {
    for (const controller of this.running) controller.abort(new ServerError("server_draining", "the server stopped before the answer was complete"));
  }
}
