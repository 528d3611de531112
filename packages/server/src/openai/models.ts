import type { Service } from "../service.ts";

/** OpenAI's model object with what a client of ours needs to know. `max_model_len` is vLLM's name for the context. */
export function modelBody(service: Service, id: string): object {
  const { info } = service;
  return {
    id,
    object: "model",
    created: service.createdSeconds,
    owned_by: "palimpsest",
    root: service.id,
    context_length: service.contextLength,
    max_model_len: service.contextLength,
    cache_dtype: service.cacheDtype,
    /** Memory of one token's keys and values in all layers. */
    cell_bytes: service.pool.pageBytes / service.pool.pageSize,
    kernels: service.level,
    capabilities: {
      /** Verbs that the model can honour by editing the cache. */
      directives: service.registry.list().map((verb) => verb.name),
      chat: service.chat !== null,
      completions: true,
      /** The template shows tools, renders earlier calls and reasoning, and leaves a prompt a prefix of the next turn's. */
      tools: service.chat?.capabilities.tools ?? false,
      tool_calls: service.chat?.capabilities.toolCalls ?? false,
      /** The form in which calls are found in answers; null: they stay text. */
      tool_call_format: service.chat?.capabilities.toolCallFormat ?? null,
      reasoning: service.chat?.capabilities.reasoning ?? false,
      thinking: service.chat?.capabilities.thinking ?? null,
      prefix_stable: service.chat?.capabilities.prefixStable ?? true,
    },
    architecture: info.architecture,
    quantization: info.quantization,
    parameters: info.parameters,
    vocabulary_size: info.vocabularySize,
  };
}
