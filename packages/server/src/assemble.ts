import { standardRegistry, type Registry } from "@palimpsest/directives";
import { ChatTemplate, Engine, Slices, TextAssembly, Tokenizer, type CellArchive, type EngineLimits, type ModelInfo, type Runtime, type TokenizerData } from "@palimpsest/engine";
import { ServerError } from "./errors.ts";
import type { Service, TokenizerPort } from "./service.ts";

export interface ServiceOptions {
  /** Name of the model in answers. */
  id: string;
  aliases?: readonly string[] | undefined;
  /** At most the model's own. */
  contextLength?: number | undefined;
  engineLimits?: Partial<EngineLimits> | undefined;
  /** Tiers behind the pool, and what names the weights there. */
  archive?: CellArchive | undefined;
  modelId?: string | undefined;
  /** Default: the verbs of the directives package. */
  registry?: Registry | undefined;
}

/** What may be used of a model's context. */
export function contextOf(info: ModelInfo, asked: number | undefined): number {
  if (asked === undefined || asked <= info.contextLength) return asked ?? info.contextLength;
  throw new ServerError("flag_invalid", `--ctx ${asked} is more than the model's context of ${info.contextLength}`, { param: "--ctx" });
}

/** A service on an open runtime. It owns both the engine that it makes and the runtime. */
export function serviceOf(runtime: Runtime, data: TokenizerData, options: ServiceOptions): Service {
  const { info, level, cacheDtype, threads, pages, pageSize, pageBytes } = runtime;
  const contextLength = contextOf(info, options.contextLength);
  const tokenizer = new Tokenizer(data);
  const engine = new Engine({ runtime, archive: options.archive, modelId: options.modelId, ...(options.engineLimits === undefined ? {} : { limits: options.engineLimits }) });
  return {
    id: options.id,
    aliases: [...new Set(options.aliases ?? [])].filter((alias) => alias !== options.id),
    createdSeconds: Math.floor(Date.now() / 1000),
    info,
    contextLength,
    level,
    cacheDtype,
    threads,
    pool: { pages, pageSize, pageBytes },
    memory: () => runtime.memory?.() ?? null,
    tokenizer: tokenizerPort(tokenizer, info.vocabularySize),
    chat: data.chatTemplate === null ? null : new ChatTemplate(data.chatTemplate, tokenizer),
    engine,
    registry: options.registry ?? standardRegistry,
    dispose: async () => {
      await engine.dispose();
      await runtime.dispose();
    },
  };
}

/** Names of tokens that end an answer in the formats that models of this kind are trained on, beside the two that the file declares. */
const END_NAMES = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>"] as const;
const NO_BYTES = new Uint8Array(0);

function tokenizerPort(tokenizer: Tokenizer, modelVocabulary: number): TokenizerPort {
  const named = END_NAMES.map((name) => tokenizer.idOfText(name)).filter((id) => id !== null && tokenizer.isControl(id));
  const ends = [tokenizer.eos, tokenizer.eot, ...named].filter((id) => id !== null);
  // Control tokens steer the model and are no text of an answer.
  const shown = { bytes: (id: number) => (tokenizer.isControl(id) ? NO_BYTES : tokenizer.tokenBytes(id)) };
  return {
    vocabularySize: Math.min(tokenizer.size, modelVocabulary),
    endTokens: [...new Set(ends)],
    encode: (text, control) => tokenizer.encode(text, { special: control, bos: control }),
    encodeInSlices: async (text, control, signal) => (await tokenizer.encodeInSlices(text, { special: control, bos: control }, new Slices(signal))).ids,
    fewestTokens: (text) => tokenizer.fewestTokens(text),
    decode: (ids) => tokenizer.decode(Array.from(ids)),
    bytes: (id) => tokenizer.tokenBytes(id),
    assembly: (stops) => new TextAssembly(shown, stops),
  };
}
