import { fold, type Directive, type Fold } from "@palimpsest/directives";
import { Engine, openWith, type EngineLimits, type EngineOptions, type GenerateEvent, type GenerateRequest, type Generation, type Report, type TokenLogprob } from "@palimpsest/engine";
import type { ArchiveLimits, Tier } from "@palimpsest/kvstore";
import { ScriptedRuntime, type ScriptedOptions } from "./scripted-runtime.ts";

export interface Answered {
  tokens: number[];
  logprobs: (TokenLogprob | undefined)[];
  scores: readonly (TokenLogprob | null)[] | null;
  reason: "stop" | "length";
  stopToken: number | undefined;
  report: Report;
}

/** An engine on a scripted model that checks everything that must hold after every step. */
export function scriptedEngine(options: ScriptedOptions = {}, limits: Partial<EngineLimits> = {}, clock: () => number = () => 0) {
  return audited(new ScriptedRuntime(options), { limits, clock });
}

/** The same with tiers behind the pool. By a clock that stands still nobody knows how fast anything is: what a tier has is always tried. */
export async function tieredEngine(runtime: ScriptedRuntime, tiers: readonly Tier[], limits: Partial<EngineLimits> = {}, archiveLimits: Partial<ArchiveLimits> = {}, modelId = "one", clock: () => number = () => 0) {
  const archive = await openWith(runtime, tiers, archiveLimits);
  return { ...audited(runtime, { limits, archive, modelId, clock }), archive };
}

function audited(runtime: ScriptedRuntime, options: Omit<EngineOptions, "runtime" | "onStep">) {
  let failure: unknown = null;
  const engine: Engine = new Engine({
    runtime,
    ...options,
    onStep: () => {
      try {
        engine.checkIntegrity();
      } catch (error) {
        failure ??= error;
      }
    },
  });
  /** Throws what the auditor found, then checks once more. Call it at the end of every test. */
  const audit = (): void => {
    if (failure !== null) throw failure;
    engine.checkIntegrity();
  };
  return { engine, runtime, audit };
}

export function request(tokens: ArrayLike<number>, directives: readonly Directive[] = [], more: Partial<GenerateRequest> = {}): GenerateRequest {
  const log = { tokens: Int32Array.from(tokens), header: tokens.length, contextLength: 4096 };
  return requestOf(fold(log, directives), tokens.length, more);
}

export function requestOf(folded: Fold, promptTokens: number, more: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    fold: folded,
    promptTokens,
    maxTokens: 4,
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1n },
    logprobs: 2,
    echo: false,
    stopTokens: [],
    namespace: "tests",
    ...more,
  };
}

export async function collect(generation: Generation): Promise<Answered> {
  const tokens: number[] = [];
  const logprobs: (TokenLogprob | undefined)[] = [];
  let scores: Answered["scores"] = null;
  let end: Extract<GenerateEvent, { type: "end" }> | null = null;
  for await (const event of generation) {
    if (event.type === "token") {
      tokens.push(event.id);
      logprobs.push(event.logprob);
    } else if (event.type === "prompt") scores = event.scores;
    else end = event;
  }
  if (end === null) throw new Error("an answer ended without an end event");
  return { tokens, logprobs, scores, reason: end.reason, stopToken: end.stopToken, report: end.report };
}

/** A deterministic generator of random numbers, for tests that print their seed. */
export function randomOf(seed: number) {
  let state = seed >>> 0 || 1;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return {
    /** In [from, to]. */
    integer: (from: number, to: number) => from + Math.floor(next() * (to - from + 1)),
    chance: (probability: number) => next() < probability,
    pick: <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!,
  };
}

/** The error that an answer ends with. Attach it before the error comes, so that the rejection is never unhandled. */
export function failureOf(generation: Generation): Promise<unknown> {
  return collect(generation).then(
    () => {
      throw new Error("the answer was expected to fail");
    },
    (error: unknown) => error,
  );
}

/** One turn of the event loop. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
