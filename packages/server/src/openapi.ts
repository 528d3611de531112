import { z } from "zod";
import { countSchema, messagesSchema } from "./anthropic/schema.ts";
import type { ServerLimits } from "./limits.ts";
import { chatSchema, completionSchema, detokenizeSchema, eraseSchema, tokenizeSchema } from "./openai/schema.ts";
import { VERSION } from "./version.ts";

export interface OpenApiDocument {
  openapi: string;
  info: { title: string; version: string; description: string };
  paths: Record<string, Record<string, { summary: string; [more: string]: unknown }>>;
}

interface Endpoint {
  method: "get" | "post";
  path: string;
  summary: string;
  body?: z.ZodType;
}

/** The API as OpenAPI 3.1, its bodies from the schemas that check them. */
export function openApiDocument(limits: Readonly<ServerLimits>): OpenApiDocument {
  const paths: OpenApiDocument["paths"] = {};
  for (const { method, path, summary, body } of endpoints(limits)) {
    paths[path] = {
      ...paths[path],
      [method]: {
        summary,
        ...(path.includes("{") ? { parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" } }] } : {}),
        ...(body === undefined ? {} : { requestBody: { required: true, content: { "application/json": { schema: jsonSchema(body) } } } }),
        responses: { 200: { description: "The answer" }, default: { description: "An error: {error: {message, type, param, code, kind}}" } },
      },
    };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Palimpsest", version: VERSION, description: "An OpenAI-compatible server whose clients edit the KV cache." },
    paths,
  };
}

const endpoints = (limits: Readonly<ServerLimits>): Endpoint[] => [
  { method: "post", path: "/v1/chat/completions", summary: "Chat, whole or streamed, with directives", body: chatSchema(limits) },
  { method: "post", path: "/v1/completions", summary: "Completion of text or token ids, with directives in token form", body: completionSchema(limits) },
  { method: "post", path: "/v1/directives/plan", summary: "What the directives of a request would do and cost; computes nothing", body: z.union([chatSchema(limits), completionSchema(limits)]) },
  { method: "get", path: "/v1/models", summary: "The loaded model under each of its names" },
  { method: "get", path: "/v1/models/{id}", summary: "One model: context length, capabilities, cache dtype" },
  { method: "post", path: "/tokenize", summary: "Tokens of a text or a chat, with the message of each token", body: tokenizeSchema(limits) },
  { method: "post", path: "/detokenize", summary: "Text of token ids", body: detokenizeSchema },
  { method: "get", path: "/v1/cache", summary: "Pages by state, requests in flight" },
  { method: "get", path: "/v1/cache/tree", summary: "Nodes of the tree, bounded" },
  { method: "get", path: "/v1/cache/pages", summary: "Pages and who holds them, bounded" },
  { method: "post", path: "/v1/cache/erase", summary: "Removes a text, and all that was computed after it, from every history of the caller; answers a receipt", body: eraseSchema(limits) },
  { method: "post", path: "/v1/messages", summary: "Anthropic's messages, whole or streamed, with context_management, cache_control and directives", body: messagesSchema(limits) },
  { method: "post", path: "/v1/messages/count_tokens", summary: "Tokens of such a request, after its edits", body: countSchema(limits) },
  { method: "get", path: "/metrics", summary: "Prometheus metrics" },
  { method: "get", path: "/health", summary: "200 when ready, 503 with progress before" },
];

const jsonSchema = (schema: z.ZodType) => z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
