import { z } from "zod";
import { DirectiveError, shown } from "../errors.ts";
import { lowerAll } from "../lower.ts";
import { ORDINARY_PRIORITY } from "../operations.ts";
import type { Registry } from "../registry.ts";
import type { Directive, Log, Range } from "../types.ts";
import { standardRegistry } from "../verbs/index.ts";
import type { DialectReading } from "./messages.ts";

const priority = () => z.int().min(0).max(100);
const milliseconds = () => z.number().positive().nullish();

const tensorRtSchema = z.strictObject({
  token_range_retention_configs: z.array(
    z.strictObject({ token_start: z.int().min(0), token_end: z.int().min(0).nullish(), priority: priority(), duration_ms: milliseconds() }),
  ),
  decode_retention_priority: priority().optional(),
  decode_duration_ms: milliseconds(),
});

export interface TensorRtRetention {
  token_range_retention_configs: { token_start: number; token_end: number | null; priority: number; duration_ms: number | null }[];
}

/** TensorRT-LLM's `kv_cache_retention_config`: ranges of tokens that may not overlap, ends exclusive, null = the end of the prompt. */
export function readTensorRt(json: unknown, log: Log, param = "kv_cache_retention_config"): DialectReading<Directive[]> {
  const config = parsed(tensorRtSchema, json, param);
  const losses: string[] = [];
  if (config.decode_retention_priority !== undefined && config.decode_retention_priority !== ORDINARY_PRIORITY) {
    losses.push(`${param}.decode_retention_priority: generated tokens keep the ordinary priority`);
  }
  if (config.decode_duration_ms) losses.push(`${param}.decode_duration_ms: generated tokens keep the ordinary duration`);
  let reach = 0;
  const entries = config.token_range_retention_configs.map(({ token_start: start, token_end: end, priority: rank, duration_ms: duration }, i) => ({
    start,
    end: end ?? log.header,
    rank,
    seconds: duration ? duration / 1000 : null,
    at: `${param}.token_range_retention_configs[${i}]`,
  }));
  for (const { start, end, at } of entries.toSorted((a, b) => a.start - b.start)) {
    if (start < reach || end <= start) throw new DirectiveError("directive_invalid", `Expected ranges that are not empty and do not overlap; got [${start}, ${end}).`, at);
    reach = end;
  }
  return { value: entries.map(({ start, end, rank, seconds, at }) => retention([start, end], rank, seconds, "tensorrt", at)), losses };
}

/** Retention of directives as TensorRT-LLM's ranges. Where ranges overlap the greater priority holds. */
export function writeTensorRt(log: Log, directives: readonly Directive[], registry: Registry = standardRegistry): DialectReading<TensorRtRetention> {
  const losses: string[] = [];
  const wanted: { range: Range; priority: number; seconds: number | null }[] = [];
  lowerAll(registry, log, directives).forEach(({ operations }, index) => {
    for (const operation of operations) {
      if (operation.kind === "retain") for (const range of operation.ranges) wanted.push({ range, priority: operation.priority, seconds: operation.seconds });
    }
    const other = operations.find(({ kind }) => kind !== "retain");
    if (other) losses.push(`directives[${index}] (${directives[index]!.op}): "${other.kind}" is lost; TensorRT-LLM only ranks what it keeps`);
  });
  const configs = disjoint(wanted).map(({ range: [start, end], priority: rank, seconds }) => ({
    token_start: start,
    token_end: end,
    priority: rank,
    duration_ms: seconds === null ? null : seconds * 1000,
  }));
  return { value: { token_range_retention_configs: configs }, losses };
}

const vllmSchema = z.strictObject({
  retention_directives: z.array(
    z.strictObject({
      start: z.int().min(0).optional(),
      end: z.int().min(0).nullish(),
      covers_prompt: z.boolean().optional(),
      priority: priority(),
      duration: z.number().positive().nullish(),
    }),
  ),
  retention_scope: z.string().optional(),
});

/** vLLM-style retention directives (an open proposal there): a range or the whole prompt, a priority, seconds. */
export function readVllm(json: unknown, log: Log, param = "vllm"): DialectReading<Directive[]> {
  const { retention_directives: entries, retention_scope: scope } = parsed(vllmSchema, json, param);
  const losses = scope === undefined ? [] : [`${param}.retention_scope: cells are kept within the tenant`];
  const value = entries.map(({ start = 0, end, covers_prompt: whole = false, priority: rank, duration }, i) => {
    const at = `${param}.retention_directives[${i}]`;
    const range: Range = whole ? [0, log.header] : [start, end ?? log.header];
    if (range[1] <= range[0]) throw new DirectiveError("directive_invalid", `Expected a range that is not empty; got [${range}).`, at);
    return retention(range, rank, duration ?? null, "vllm", at);
  });
  return { value, losses };
}

/** A pin with a rank of its own. It holds for what is visible where it stands, so its boundary is the end of its range. */
function retention([start, end]: Range, rank: number, seconds: number | null, source: string, param: string): Directive {
  return { op: "pin", target: { tokens: [start, end] }, at: { token: end }, ...(seconds === null ? {} : { until: { seconds } }), priority: rank, source, param };
}

function parsed<T>(schema: z.ZodType<T>, json: unknown, param: string): T {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = issue!.path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  throw new DirectiveError("directive_invalid", `${issue!.message}; got ${shown(json)}.`, `${param}${path}`);
}

/** Cuts overlapping ranges so that each token has its greatest priority. */
function disjoint<T extends { range: Range; priority: number; seconds: number | null }>(wanted: readonly T[]): T[] {
  const cuts = [...new Set(wanted.flatMap(({ range }) => range))].toSorted((a, b) => a - b);
  const pieces: T[] = [];
  for (let i = 0; i + 1 < cuts.length; i++) {
    const range: Range = [cuts[i]!, cuts[i + 1]!];
    const [best] = wanted.filter(({ range: [start, end] }) => start <= range[0] && range[1] <= end).toSorted((a, b) => b.priority - a.priority);
    if (!best) continue;
    const last = pieces[pieces.length - 1];
    const joins = last && last.range[1] === range[0] && last.priority === best.priority && last.seconds === best.seconds;
    if (joins) pieces[pieces.length - 1] = { ...last, range: [last.range[0], range[1]] };
    else pieces.push({ ...best, range });
  }
  return pieces;
}
