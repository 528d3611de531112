import { setTimeout as sleep } from "node:timers/promises";
import { fold, type Log, type Range } from "@palimpsest/directives";
import type { Erased } from "@palimpsest/engine";
import { ServerError } from "../errors.ts";
import type { ServerLimits } from "../limits.ts";
import type { Service } from "../service.ts";
import type { Caller } from "../tenants.ts";
import { readBody } from "./body.ts";
import { chatLog, checkIds, completionLog, requireModel } from "./prepare.ts";
import { bodySpec, eraseSchema, type EraseBody } from "./schema.ts";
import { refuseUnbuiltMessages } from "./unbuilt.ts";

/** What to erase: tokens of a log from its first on, and the stretches of them that must go with all that followed. */
export interface WantedErasure {
  tokens: Int32Array;
  ranges: readonly Range[];
  warnings: readonly string[];
}

export function eraseReader(limits: Readonly<ServerLimits>) {
  const spec = bodySpec(eraseSchema(limits));
  return async (service: Service, body: unknown, signal?: AbortSignal): Promise<WantedErasure> => {
    const { value, warnings } = readBody(spec, body, limits);
    requireModel(service, value.model);
    const { log, warnings: unseen } = await logOf(service, value, signal);
    return { tokens: log.tokens, ranges: rangesOf(log, value), warnings: [...warnings, ...unseen] };
  };
}

async function logOf(service: Service, { match }: EraseBody, signal: AbortSignal | undefined): Promise<{ log: Log; warnings: readonly string[] }> {
  if ("tokens" in match) {
    if (match.tokens.length === 0) throw new ServerError("field_invalid", "match.tokens: expected at least one token, got none", { param: "match.tokens" });
    return { log: completionLog(service, checkIds(service, match.tokens, "match.tokens")), warnings: [] };
  }
  refuseUnbuiltMessages(match.messages, ["match", "messages"]);
  // What goes on behind the last message, whoever speaks next, goes too.
  return chatLog(service, { ...match, add_generation_prompt: match.add_generation_prompt ?? false }, { signal });
}

/** A target is resolved as that of a drop at the end of the log, however long the log is. */
function rangesOf(log: Log, { target }: EraseBody): readonly Range[] {
  if (target === undefined || target === null) return [[0, log.tokens.length]];
  const [outcome] = fold({ ...log, contextLength: log.tokens.length + 1 }, [{ op: "drop", target, param: "target" }]).outcomes;
  return outcome!.ranges ?? [];
}

/** How long a receipt waits for readers of what was erased, which go on until their answers end. */
const READERS_WAIT_MS = 1000;

/** Erases in the caller's own namespace, and answers the receipt. */
export async function erase(service: Service, caller: Caller, { tokens, ranges, warnings }: WantedErasure): Promise<object> {
  // Whatever has the whole text up to a later stretch has the first one: what followed that is gone already.
  const [first] = ranges;
  const erased = first === undefined ? null : service.engine.erase({ namespace: caller.namespace, tokens: tokens.subarray(0, first[1]), from: first[0] });
  if (erased !== null) await Promise.race([erased.complete, sleep(READERS_WAIT_MS, undefined, { ref: false })]);
  return {
    object: "cache.erasure",
    model: service.id,
    prompt_tokens: tokens.length,
    ranges,
    ...(erased === null ? { erased_tokens: 0, complete: true, reason: "no_whole_token" } : receiptBody(erased)),
    ...(warnings.length > 0 ? { warnings } : {}),
  };
}

/** What went, as an answer or the endpoint says it. */
export function receiptBody({ time, paths, cells, tiers, unreachable, readers, isComplete }: Erased): object {
  const left = Object.keys(unreachable).length > 0 ? { unreachable } : {};
  return { time, paths, erased_tokens: cells, cells: { device: cells, ...tiers }, readers, complete: isComplete, ...left };
}
