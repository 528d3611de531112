import type { FastifyInstance } from "fastify";
import { ServerError } from "../errors.ts";

/** Endpoints of the API that are not built yet: known, so that they answer `unsupported` and not "no such endpoint". */
const UNBUILT: Readonly<Record<string, string>> = {
  "/v1/messages": "Anthropic's messages are not built yet; use /v1/chat/completions",
  "/v1/messages/count_tokens": "Anthropic's messages are not built yet; use /tokenize",
};

export function unbuiltRoutes(fastify: FastifyInstance): void {
  for (const [path, reason] of Object.entries(UNBUILT)) {
    fastify.post(path, async () => {
      throw new ServerError("unsupported", `${path} is not supported: ${reason}`);
    });
  }
}
