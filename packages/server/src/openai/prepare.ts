import { randomBytes, randomUUID } from "node:crypto";
import { DirectiveError, fold as foldLog, type Directive, type Fold, type Log } from "@palimpsest/directives";
import { Slices, type GenerateRequest } from "@palimpsest/engine";
import { ServerError } from "../errors.ts";
import type { Service } from "../service.ts";
import { show } from "./body.ts";
import { templateRequest, type ChatLike } from "./template.ts";
import type { ChatBody, CompletionBody } from "./schema.ts";
import { CONTEXT_FIELDS, directivesOf } from "./verbs.ts";

/** A log and its fold, as one request asks for them. */
export interface Folded {
  log: Log;
  fold: Fold;
  context: boolean;
  /** The same with some directives carried out by editing the text. */
  refold(prefill: ReadonlySet<number>): Fold;
}

/** How a log is made of a body. */
export interface LogOptions {
  /** Ends it early: the client is gone. */
  signal?: AbortSignal | undefined;
  /** Refuse what cannot fit the context before it is tokenised. A context request may have a longer log. */
  mustFit?: boolean | undefined;
}

/** Tokens of a completions prompt. */
export async function promptTokens(service: Service, prompt: CompletionBody["prompt"], options: LogOptions = {}): Promise<Int32Array> {
  const tokens = typeof prompt === "string" ? await textTokens(service, prompt, options) : await promptList(service, prompt, options);
  if (tokens.length === 0) throw new ServerError("field_invalid", "prompt: expected at least one token, got an empty prompt", { param: "prompt" });
  return tokens;
}

type PromptList = Exclude<CompletionBody["prompt"], string>;

async function promptList(service: Service, list: PromptList, options: LogOptions): Promise<Int32Array> {
  const [first] = list;
  if (typeof first === "string" || Array.isArray(first)) {
    if (list.length > 1) {
      throw new ServerError("unsupported", `prompt: ${list.length} prompts in one request are not supported; send one request for each, they run together`, {
        param: "prompt[1]",
      });
    }
    return typeof first === "string" ? textTokens(service, first, options) : checkIds(service, first, "prompt[0]");
  }
  return checkIds(service, list as readonly number[], "prompt");
}

async function textTokens({ tokenizer, contextLength }: Service, text: string, { signal, mustFit = false }: LogOptions): Promise<Int32Array> {
  const fewest = mustFit ? tokenizer.fewestTokens(text) : 0;
  if (fewest <= contextLength) return tokenizer.encodeInSlices(text, true, signal);
  const message = `the model's context is ${contextLength} tokens and the prompt takes at least ${fewest}; shorten it, or drop parts of it and reposition`;
  throw new ServerError("context_length_exceeded", message, { param: "prompt" });
}

/** Ids below the vocabulary's size. Throws with the index of the first one that is not. */
export function checkIds(service: Service, ids: readonly number[], param: string): Int32Array {
  const size = service.tokenizer.vocabularySize;
  const bad = ids.findIndex((id) => id >= size);
  if (bad !== -1) {
    throw new ServerError("field_invalid", `${param}[${bad}]: expected a token id below ${size}, got ${ids[bad]}`, { param: `${param}[${bad}]` });
  }
  return Int32Array.from(ids);
}

export function completionLog(service: Service, tokens: Int32Array): Log {
  return { tokens, header: tokens.length, ...limitsOf(service) };
}

/** Renders a chat by the model's template; the owner of each token comes from the rendering. `warnings`: what the model will not see. */
export async function chatLog(service: Service, body: ChatLike, { signal, mustFit = false }: LogOptions = {}): Promise<{ log: Log; warnings: readonly string[] }> {
  if (service.chat === null) {
    throw new ServerError("unsupported", "the model file has no chat template; use /v1/completions", { param: "messages" });
  }
  const tokensMax = mustFit ? service.contextLength : undefined;
  const { tokens, header, chat, warnings } = await service.chat.renderInSlices(templateRequest(body), { slices: new Slices(signal), tokensMax });
  if (tokens.length === 0) throw new ServerError("template_failed", "messages: the chat template rendered no token", { param: "messages" });
  return { log: { tokens, header, chat, ...limitsOf(service) }, warnings };
}

/** What a log needs to know of the model. */
function limitsOf({ contextLength, tokenizer }: Service): Pick<Log, "contextLength" | "tokenize" | "vocabulary"> {
  return { contextLength, vocabulary: tokenizer.vocabularySize, tokenize: (text) => tokenizer.encode(text, false) };
}

/** Whether a body is a context request: it has one of the fields, whatever its value, or an option that edits the context. */
export function isContextRequest(raw: Readonly<Record<string, unknown>>): boolean {
  const cache = raw["cache"] as { scratch?: unknown } | null | undefined;
  return CONTEXT_FIELDS.some((field) => Object.hasOwn(raw, field)) || (cache?.scratch ?? null) !== null;
}

/** Reads the context fields of a body and folds the log by them. Errors are of the directives package, or a prompt past the context. */
export function foldBody({ registry }: Pick<Service, "registry">, log: Log, raw: Readonly<Record<string, unknown>>, compat: "akv" | undefined, others: readonly Directive[]): Folded {
  const context = others.length > 0 || isContextRequest(raw);
  if (!context && log.tokens.length > log.contextLength) throw contextExceeded(log, log.tokens.length, 0);
  const directives = directivesOf(log, raw, others, registry);
  const refold = (prefill: ReadonlySet<number>) => foldLog(log, directives, { compat, registry, prefill });
  try {
    return { log, fold: foldLog(log, directives, { compat, registry }), context, refold };
  } catch (error) {
    // A log that is too long even as edited is the prompt's fault, not that of one directive.
    if (error instanceof DirectiveError && error.code === "context_length_exceeded" && error.param === undefined) {
      throw new ServerError("context_length_exceeded", error.message, { param: promptField(log) });
    }
    throw error;
  }
}

const promptField = (log: Log): string => (log.chat === undefined ? "prompt" : "messages");

/**
 * How many tokens may be generated: what was asked, as far as the context has positions; all there is room for where nothing was
 * asked, in the context and in the pool. Throws where not one fits.
 */
export function tokensAllowed(service: Service, { log, fold }: Folded, asked: number | null): number {
  const room = log.contextLength - fold.nextPosition;
  if (asked !== 0 && room < 1) throw contextExceeded(log, fold.nextPosition, 1);
  if (asked !== null) return Math.min(asked, Math.max(room, 0));
  // A page is shared with what follows only when it is full, so two may go to waste.
  const cells = (service.pool.pages - 2) * service.pool.pageSize - fold.tokens.length;
  return Math.max(1, Math.min(room, cells));
}

function contextExceeded(log: Log, position: number, more: number): ServerError {
  const wanted = more === 0 ? "" : ", which leaves no position for a token of the answer";
  return new ServerError(
    "context_length_exceeded",
    `the model's context is ${log.contextLength} tokens and the prompt ends at position ${position}${wanted}; shorten it, or drop parts of it and reposition`,
    { param: promptField(log) },
  );
}

type Sampled = Pick<CompletionBody & ChatBody, "temperature" | "top_p" | "top_k" | "min_p" | "seed" | "stop" | "stop_token_ids" | "ignore_eos">;

/** Absent fields have OpenAI's defaults; an absent seed is a new one for each request. */
export function samplingOf(body: Sampled): GenerateRequest["sampling"] {
  return {
    temperature: body.temperature ?? 1,
    topK: Math.max(body.top_k ?? 0, 0),
    topP: body.top_p ?? 1,
    minP: body.min_p ?? 0,
    seed: typeof body.seed === "number" ? BigInt.asUintN(64, BigInt(body.seed)) : randomBytes(8).readBigUInt64LE(),
  };
}

export function stopsOf(body: Sampled): string[] {
  if (typeof body.stop === "string") return [body.stop];
  return body.stop ?? [];
}

export function stopTokensOf(service: Service, body: Sampled): number[] {
  const own = body.ignore_eos === true ? [] : service.tokenizer.endTokens;
  return [...own, ...checkIds(service, body.stop_token_ids ?? [], "stop_token_ids")];
}

export function requireModel(service: Service, model: string | null | undefined): void {
  if (model === undefined || model === null || model === service.id || service.aliases.includes(model)) return;
  const names = [service.id, ...service.aliases].join(", ");
  throw new ServerError("model_not_found", `there is no model ${show(model)} here; loaded is ${names} (the field may be left out)`, { param: "model" });
}

export function requireStream(body: { stream?: boolean | null | undefined; stream_options?: object | null | undefined }): void {
  if (body.stream_options && body.stream !== true) {
    throw new ServerError("field_invalid", 'stream_options: only with "stream": true', { param: "stream_options" });
  }
}

export function answerHead(service: Service, prefix: string, object: string): Record<string, unknown> {
  return {
    id: `${prefix}-${randomUUID().replaceAll("-", "")}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model: service.id,
    system_fingerprint: `palimpsest-${service.level}-${service.cacheDtype}`,
  };
}
