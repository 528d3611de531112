import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Runtime, StepResult } from "@palimpsest/kernels-cuda";
import { patternHash, type CellArchive } from "@palimpsest/kvstore";
import { Answer } from "./answer.ts";
import { Cache, type Erasing } from "./cache.ts";
import { erasedOf, pathOf } from "./erasure.ts";
import { checkIntegrity } from "./integrity.ts";
import { EngineError } from "./errors.ts";
import { limitsOf, type EngineLimits } from "./limits.ts";
import { predict } from "./predict.ts";
import { prepare, SAMPLED, type Prepared } from "./prepare.ts";
import { StepMeter } from "./rates.ts";
import { missOf, reportOf } from "./report.ts";
import { maxTokensOf, refuse } from "./request.ts";
import { Restorer } from "./restorer.ts";
import { Retainer } from "./retention.ts";
import { Scheduler, type Entry } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { enter, type Gain } from "./settle.ts";
import { StepBuilder } from "./step-builder.ts";
import type { EngineState, Erased, GenerateRequest, Generation, Report } from "./types.ts";

export interface EngineOptions {
  /** The model and its pages. The engine is the only one to run steps on it while it lives; it is not disposed with the engine. */
  runtime: Runtime;
  limits?: Partial<EngineLimits>;
  /**
   * Where cells go that leave the device (`openArchive`). The engine is its only user while it lives, and closes it with itself. Needs a
   * runtime with `cells`.
   */
  archive?: CellArchive | undefined;
  /** Names the weights, for cells that outlive the process: a hash of the model file. */
  modelId?: string | undefined;
  /** Milliseconds, for ages in `state()`. */
  clock?: () => number;
  /** Called after each step is settled, in the turn of the loop. For tests and metrics; must not throw. */
  onStep?: (result: StepResult) => void;
  /** Receives the raw logits of every output, valid during the call. For tests: a step then carries outputs × vocabulary numbers. */
  onLogits?: (output: LogitsOutput, logits: Float32Array) => void;
}

/** Which row's logits: those that score token `scored` of the request's log, or those from which draw `draw` of its answer is made. */
export interface LogitsOutput {
  request: GenerateRequest;
  scored: number | null;
  draw: number | null;
}

/**
 * Continuous batching over an edited KV cache: takes folds of logs and runs their prompts and answers in common forward steps. State sits
 * with its managers: the scheduler has who waits and runs, the cache has pages and tree, a sequence its path, a holding its leases.
 */
export class Engine {
  readonly limits: EngineLimits;
  readonly #runtime: Runtime;
  readonly #cache: Cache;
  readonly #scheduler: Scheduler;
  readonly #restorer: Restorer | null;
  readonly #retainer: Retainer;
  readonly #builder: StepBuilder;
  readonly #clock: () => number;
  readonly #onStep: EngineOptions["onStep"];
  readonly #onLogits: EngineOptions["onLogits"];
  readonly #cancelFlag = new Int32Array(new SharedArrayBuffer(4));
  readonly #loop: Promise<void>;
  readonly #meter = new StepMeter();
  #sequences = 0;
  #steps = 0;
  #lastStepAtMs: number | null = null;
  #stepSinceMs: number | null = null;
  #damaged = false;
  #inFlight: readonly Entry[] = [];
  #wake: (() => void) | null = null;
  #disposed = false;
  #closing: Promise<void> | null = null;

  constructor({ runtime, limits, archive, modelId, clock, onStep, onLogits }: EngineOptions) {
    if (runtime.info.groups !== 1) throw new EngineError("groups_unsupported", `models with ${runtime.info.groups} groups of cells cannot be run yet`);
    this.limits = limitsOf(limits);
    this.#runtime = runtime;
    const onUnheld = () => this.#scheduler.retry();
    this.#cache = new Cache({ device: runtime, limits: this.limits, modelId, archive, clock: () => this.#clock(), onUnheld });
    this.#restorer = archive === undefined ? null : new Restorer(this.#cache, archive, this.limits, () => this.#meter.rates.prefillTokensPerSecond);
    this.#scheduler = new Scheduler(this.#cache, this.limits, this.#restorer, () => this.#wakeUp());
    this.#builder = new StepBuilder(runtime.pageSize);
    this.#clock = clock ?? (() => performance.now());
    this.#retainer = new Retainer(this.#clock);
    this.#onStep = onStep;
    this.#onLogits = onLogits;
    this.#loop = this.#run();
  }

  /** Queues a request; what can never be computed throws here. Its cells are in the tree before its last event is delivered. */
  generate(request: GenerateRequest): Generation {
    const sequence = this.#sequence(request);
    this.#scheduler.enqueue(sequence, this.#clock());
    if (request.fold.erase.length > 0) {
      const { erase } = request.fold;
      const running = this.#scheduler.running.filter(({ namespace }) => namespace === sequence.namespace).map((other) => other.path());
      sequence.erased = this.#complete(this.#cache.eraseSets(sequence.namespace, erase, sequence.path(), running), erase.map(pathOf));
    }
    const { signal } = request;
    if (signal !== undefined) {
      const cancel = () => this.#leave(sequence, "cancelled", signal.reason);
      if (signal.aborted) cancel();
      else {
        signal.addEventListener("abort", cancel, { once: true });
        sequence.onEnd = () => signal.removeEventListener("abort", cancel);
      }
    }
    this.#wakeUp();
    return sequence.answer;
  }

  /** The report that `generate` would end with, from what is cached now; what can never be computed throws as there. Computes nothing. */
  plan(request: GenerateRequest): Report {
    const sequence = this.#sequence(request);
    this.#scheduler.requireFits(sequence);
    return predict(sequence, this.#cache, this.#retainer, this.limits);
  }

  state(): EngineState {
    const now = this.#clock();
    const oldest = this.#scheduler.waiting.oldestSinceMs;
    return {
      waiting: this.#scheduler.waiting.length,
      running: this.#scheduler.running.length,
      lastStepMs: this.#lastStepAtMs === null ? null : now - this.#lastStepAtMs,
      stepMs: this.#stepSinceMs === null ? null : now - this.#stepSinceMs,
      damaged: this.#damaged,
      oldestWaitingMs: oldest === null ? null : now - oldest,
      steps: this.#steps,
      rates: this.#meter.rates,
      pageSize: this.#cache.pool.pageSize,
      pages: this.#cache.pool.audit(),
      promisedPages: this.#cache.promised,
      tree: this.#cache.tree.stats(),
      tiers: this.#restorer === null ? null : { ...this.#cache.archive!.stats(), ...this.#restorer.counts },
    };
  }

  /**
   * Erases a text: the tokens from `from` on, where they stand behind those in front of `from`, in every history of a namespace, and
   * all that was computed after them.
   */
  erase({ namespace, tokens, from = 0 }: { namespace: string; tokens: Int32Array; from?: number }): Erased {
    return this.#complete([this.#cache.erase(this.#cache.namespace(namespace), tokens, from)], [patternHash({ tokens, from })]);
  }

  /** Evicts cells that nobody holds until `pages` pages are free; answers whether so many are. */
  evictUntilFree(pages: number): boolean {
    return this.#cache.evictUntilFree(pages);
  }

  /** Throws `engine_damaged`, or what pool and tree throw, when anything that must hold does not. Looks at everything: for tests. */
  checkIntegrity(): void {
    checkIntegrity(this.#cache, this.#scheduler);
  }

  /** Ends all requests with `engine_disposed`, waits for the running step, and closes the archive. Idempotent. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    if (this.#inFlight.length > 0) Atomics.store(this.#cancelFlag, 0, 1);
    this.#wakeUp();
    await this.#loop;
    this.#closing ??= this.#closeArchive();
    await this.#closing;
  }

  /** What only this process has goes where a restart finds it, as far as there is such a place and time. */
  async #closeArchive(): Promise<void> {
    const { archive } = this.#cache;
    if (archive === null) return;
    const { persistMsMax } = this.limits;
    const ended = archive.idle().then(() => archive.persist(persistMsMax)).then(() => archive.close());
    const waiting = new AbortController();
    // A disk that answers no more must not keep a server from ending.
    const late = sleep(1.5 * persistMsMax, undefined, { ref: false, signal: waiting.signal }).catch(() => undefined);
    await Promise.race([ended, late]);
    waiting.abort();
  }

  /** The main loop. It ends when the engine is disposed, or finds that its own books are wrong: then nothing more is computed on them. */
  async #run(): Promise<void> {
    try {
      while (await this.#receive()) {
        const entries = this.#schedule();
        if (entries.length === 0) continue;
        const prepared = this.#prepare(entries);
        const result = await this.#forward(prepared);
        this.#settle(prepared, result);
      }
      this.#endAll(new EngineError("engine_disposed", "the engine was disposed"));
    } catch (error) {
      this.#disposed = true;
      this.#damaged = true;
      this.#endAll(new EngineError("engine_damaged", "the engine has stopped after an internal error", undefined, { cause: error }));
    }
  }

  /** Lets others have their turn, so that requests, aborts and stops come in. Sleeps while there is nothing to do. False: disposed. */
  async #receive(): Promise<boolean> {
    await nextTurn();
    while (!this.#disposed && this.#scheduler.isIdle) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return !this.#disposed;
  }

  #schedule(): Entry[] {
    for (const sequence of this.#scheduler.admit()) {
      this.#fail(sequence, new EngineError("pages_exceeded", "the request does not fit into the cache, even alone; shorten it or allow fewer tokens"));
    }
    return this.#scheduler.batch(this.#steps + 1);
  }

  #prepare(entries: readonly Entry[]): Prepared {
    const prepared = prepare(entries, this.#builder);
    if (this.#onLogits !== undefined) prepared.step.logits = new Float32Array(prepared.purposes.length * this.#runtime.info.vocabularySize);
    return prepared;
  }

  /** Null when the step failed or was cancelled: its sequences have left then. */
  async #forward({ step, entries }: Prepared): Promise<StepResult | null> {
    this.#inFlight = entries;
    Atomics.store(this.#cancelFlag, 0, 0);
    this.#cancelStepIfUnwanted();
    const startedMs = this.#clock();
    this.#stepSinceMs = startedMs;
    try {
      const result = await this.#runtime.step(step, this.#cancelFlag);
      this.#meter.observe(entries, this.#clock() - startedMs);
      return result;
    } catch (error) {
      this.#inFlight = [];
      for (const { sequence } of entries) {
        if (sequence.ended) continue;
        if (sequence.leaving === "cancelled") this.#fail(sequence, cancelled(sequence));
        else this.#fail(sequence, this.#disposed ? new EngineError("engine_disposed", "the engine was disposed") : stepError(error));
      }
      return null;
    } finally {
      this.#stepSinceMs = null;
    }
  }

  /** Results enter the sequences, then tokens are delivered, and who has ended leaves. */
  #settle(prepared: Prepared, result: StepResult | null): void {
    if (result === null) return;
    // Only now: between the step's end and this turn a reader may still leave.
    this.#inFlight = [];
    this.#steps++;
    this.#lastStepAtMs = this.#clock();
    if (this.#onLogits !== undefined) this.#showLogits(prepared, this.#onLogits);
    for (const gain of enter(prepared, result, this.#steps)) this.#deliver(gain);
    for (const { sequence } of prepared.entries) {
      if (sequence.ended) continue;
      if (sequence.leaving !== null) this.#end(sequence);
      else if (sequence.outcome !== null && !sequence.isPrefilling) this.#finish(sequence, sequence.outcome);
    }
    this.#onStep?.(result);
  }

  #showLogits({ step, entries, outputsEnd, purposes }: Prepared, show: NonNullable<EngineOptions["onLogits"]>): void {
    const size = this.#runtime.info.vocabularySize;
    let entry = 0;
    purposes.forEach((purpose, output) => {
      while (output >= outputsEnd[entry]!) entry++;
      const { request, generated } = entries[entry]!.sequence;
      const isDraw = purpose === SAMPLED;
      show({ request, scored: isDraw ? null : purpose, draw: isDraw ? generated : null }, step.logits!.subarray(output * size, (output + 1) * size));
    });
  }

  #deliver({ sequence, token, logprob }: Gain): void {
    if (sequence.leaving !== null) return;
    this.#deliverScores(sequence);
    if (sequence.request.stopTokens.includes(token)) {
      sequence.outcome = { reason: "stop", stopToken: token };
      return;
    }
    sequence.generated++;
    if (sequence.generated === sequence.maxTokens) sequence.outcome = { reason: "length" };
    else sequence.append(token);
    sequence.answer.push({ type: "token", id: token, ...(logprob === undefined ? {} : { logprob }) });
  }

  #deliverScores(sequence: Sequence): void {
    if (sequence.scores === null || sequence.scoresDelivered) return;
    sequence.scoresDelivered = true;
    sequence.answer.push({ type: "prompt", scores: sequence.scores });
  }

  #publishAnswer(sequence: Sequence): void {
    sequence.admission?.holding.publish(sequence.path(), sequence.publishedTo, sequence.ranTo);
    sequence.publishedTo = sequence.ranTo;
  }

  /** The answer is complete: its cells go to the tree, its leases back, and its reader gets the end. */
  #finish(sequence: Sequence, outcome: NonNullable<Sequence["outcome"]>): void {
    this.#deliverScores(sequence);
    this.#publishAnswer(sequence);
    sequence.admission?.holding.keepAll();
    const { fold, promptSteps, admission } = sequence;
    const miss = admission === null ? null : missOf(fold, admission.found, admission.work);
    const refused = admission === null ? new Set<number>() : this.#retainer.apply(sequence);
    const scratched = admission === null ? undefined : this.#retainer.scratch(sequence);
    const report = reportOf(sequence, promptSteps, miss, refused);
    this.#depart(sequence);
    sequence.answer.push({ type: "end", ...outcome, report, ...(scratched === undefined ? {} : { scratched }), ...(sequence.erased === null ? {} : { erased: sequence.erased }) });
  }

  /** Whoever wanted to leave leaves, with what was computed for it published. */
  #end(sequence: Sequence): void {
    if (sequence.leaving === "stopped") {
      this.#finish(sequence, { reason: "stop" });
      return;
    }
    this.#publishAnswer(sequence);
    this.#depart(sequence);
    sequence.answer.fail(cancelled(sequence));
  }

  /** What the last step computed for the sequence is lost, or nothing was. */
  #fail(sequence: Sequence, error: unknown): void {
    this.#depart(sequence);
    sequence.answer.fail(error);
  }

  #depart(sequence: Sequence): void {
    sequence.ended = true;
    this.#scheduler.leave(sequence);
    sequence.onEnd?.();
  }

  /** Idempotent. Takes effect at once, unless a step with rows of the sequence is in flight: then when it ends. */
  #leave(sequence: Sequence, how: "cancelled" | "stopped", cause?: unknown): void {
    if (sequence.ended || sequence.leaving === "cancelled") return;
    sequence.leaving = how;
    sequence.cause = cause;
    if (this.#inFlight.some((entry) => entry.sequence === sequence)) this.#cancelStepIfUnwanted();
    else this.#end(sequence);
  }

  #cancelStepIfUnwanted(): void {
    const unwanted = this.#disposed || this.#inFlight.every(({ sequence }) => sequence.leaving === "cancelled");
    if (unwanted && this.#inFlight.length > 0) Atomics.store(this.#cancelFlag, 0, 1);
  }

  /** Pages that an erasure has freed are zeroed now, those that are still read when their readers have left. */
  #complete(erasings: readonly Erasing[], paths: readonly string[]): Erased {
    const zero = () => {
      if (!this.#disposed) this.#cache.clearFree();
    };
    zero();
    return erasedOf(erasings, paths, zero);
  }

  #sequence(request: GenerateRequest): Sequence {
    if (this.#damaged) throw new EngineError("engine_damaged", "the engine has stopped after an internal error");
    if (this.#disposed) throw new EngineError("engine_disposed", "the engine was disposed");
    const { contextLength } = this.#runtime.info;
    refuse(request, this.#runtime.info.vocabularySize);
    const answer: Answer = new Answer({ cancel: () => this.#leave(sequence, "cancelled"), stop: () => this.#leave(sequence, "stopped") });
    const sequence: Sequence = new Sequence(++this.#sequences, request, this.#cache.namespace(request.namespace), maxTokensOf(request, contextLength), answer);
    return sequence;
  }

  #endAll(error: EngineError): void {
    for (const sequence of [...this.#scheduler.waiting.drop(() => true), ...this.#scheduler.running]) this.#fail(sequence, error);
  }

  #wakeUp(): void {
    this.#wake?.();
    this.#wake = null;
  }
}

function cancelled({ cause }: Sequence): EngineError {
  return new EngineError("request_cancelled", "the request was cancelled", undefined, { cause });
}

/** Errors of the compute layer keep their kind and code; anything else is ours to report. */
function stepError(error: unknown): unknown {
  if (typeof (error as { kind?: unknown }).kind === "string") return error;
  return new EngineError("step_failed", "a forward step failed; the request may be sent again", undefined, { cause: error });
}
