import type { Fold, Outcome } from "@palimpsest/directives";
import type { Sampler } from "@palimpsest/kernels-cuda";
import type { ArchiveStats, Audit } from "@palimpsest/kvstore";
import type { TreeStats } from "@palimpsest/radix";
import type { StepRates } from "./rates.ts";
import type { RestoreCounts } from "./restorer.ts";

/** One answer to compute. The fold holds the prompt; nothing of a request outlives it but cells in the tree. */
export interface GenerateRequest {
  fold: Fold;
  /** Raw length of the log, for the report. */
  promptTokens: number;
  /** Most tokens to generate; 0 only scores (with `echo`), or warms the cache. Bounded by the positions that the context has left. */
  maxTokens: number;
  sampling: Omit<Sampler, "draw">;
  /** Alternatives wanted for each token, 0…20; −1 = no log-probabilities at all. */
  logprobs: number;
  /** Compute every prompt token anew and report its log-probability. */
  echo: boolean;
  /** Ids that end the answer (the model's own ends, unless `ignore_eos`). */
  stopTokens: readonly number[];
  /**
   * Stretches of the answer, by its tokens, that later turns will not see: their cells are given up first. Asked once, with the tokens of
   * the answer that are cells.
   */
  scratchOf?: ((answer: Int32Array) => readonly (readonly [number, number])[]) | undefined;
  /** Cells are shared only inside one namespace: tenant and whatever else the server derives. */
  namespace: string;
  /** Aborting it ends the request, waiting or running, with `request_cancelled`. */
  signal?: AbortSignal | undefined;
}

export interface TokenLogprob {
  id: number;
  logprob: number;
  top: readonly { id: number; logprob: number }[];
}

/** What comes out of a running answer, in order: prompt scores (echo), tokens, then one end. */
export type GenerateEvent =
  | { type: "prompt"; scores: readonly (TokenLogprob | null)[] }
  | { type: "token"; id: number; logprob?: TokenLogprob | undefined }
  | {
      type: "end";
      reason: "stop" | "length";
      /** The stop token that ended the answer; it is no `token` event. */
      stopToken?: number | undefined;
      report: Report;
      /** Cells of the answer that later turns will not see, where `scratchOf` was asked. */
      scratched?: number | undefined;
      /** What the log's forgets erased. */
      erased?: Erased | undefined;
    };

/** WIRE 4, without the directives' outcomes, which the fold has. */
export interface Report {
  prompt_tokens: number;
  visible_tokens: number;
  next_position: number;
  stages: number;
  cached_tokens: number;
  repositioned_tokens: number;
  computed_tokens: number;
  skipped_tokens: number;
  forgotten_tokens: number;
  inserted_tokens: number;
  recomputed_tokens: number;
  recovered_tokens: number;
  /** Forward steps that ran rows of the prompt. */
  forward_steps: number;
  bytes_moved: number;
  directives: readonly Outcome[];
  miss: Miss | null;
}

export interface Miss {
  at_token: number;
  reason: "new" | "event_differs" | "token_differs" | "evicted" | "namespace";
  detail: string;
}

/** A running answer. Leaving the iteration early, or aborting the signal, gives all its pages back within one step. */
export interface Generation extends AsyncIterable<GenerateEvent> {
  /** Ends the answer as if by a stop token after what was delivered (a stop string was seen): the end event follows. */
  stop(): void;
}

/** What an erasure did in the pages of this engine. */
export interface Erased {
  /** When nothing of it was found any more, ISO 8601. */
  time: string;
  /** SHA-256 of each text that was named: its tokens from the log's first on, and where it begins. The same as in receipts of the store. */
  paths: readonly string[];
  /** Cells that no request will find any more. */
  cells: number;
  /** Cells that the tiers had, by name of the tier; filled when `complete` resolves. */
  readonly tiers: Readonly<Record<string, number>>;
  /** Blocks that a tier could not be made to forget now: nobody finds them here, and every later write tries again. Filled likewise. */
  readonly unreachable: Readonly<Record<string, number>>;
  /** Stretches of cells that running requests still read, and give back when they leave. */
  readers: number;
  /** Whether the last reader has left. */
  readonly isComplete: boolean;
  /** Resolves when the last reader has left, the cells are overwritten on the device, and the tiers have forgotten them. */
  complete: Promise<void>;
}

/** What an engine is doing. */
export interface EngineState {
  waiting: number;
  running: number;
  /** Since the last step ended; null before the first. */
  lastStepMs: number | null;
  /** Since the step began that computes now; null when none does. */
  stepMs: number | null;
  /** The engine has stopped after an internal error, and will compute nothing more. */
  damaged: boolean;
  /** Since the request that waits longest came; null when none waits. */
  oldestWaitingMs: number | null;
  /** Forward steps so far. */
  steps: number;
  rates: StepRates;
  pageSize: number;
  pages: Audit;
  /** Pages that running requests may still take. */
  promisedPages: number;
  tree: TreeStats;
  /** What the tiers hold and did; null: there are none. */
  tiers: (ArchiveStats & RestoreCounts) | null;
}
