import type { Registry } from "@palimpsest/directives";
import type { CellDtype, ChatTemplate, Engine, KernelLevel, ModelInfo, TextAssembly } from "@palimpsest/engine";

/** A loaded model as the HTTP layer sees it. `loadService` makes it of the layers below; everything here is theirs, by its own name. */
export interface Service {
  /** Name in answers and in `/v1/models`. */
  readonly id: string;
  readonly aliases: readonly string[];
  readonly createdSeconds: number;
  readonly info: ModelInfo;
  /** What may be used of the model's context (`--ctx`). */
  readonly contextLength: number;
  readonly level: KernelLevel;
  readonly cacheDtype: CellDtype;
  readonly threads: number;
  readonly pool: { pages: number; pageSize: number; pageBytes: number };
  /** Bytes held after the last step; null where the runtime does not say. */
  memory(): { weights: number; cells: number; scratch: number } | null;
  readonly tokenizer: TokenizerPort;
  /** Null where the model file has no chat template. */
  readonly chat: ChatTemplate | null;
  readonly engine: Engine;
  /** The verbs that directives may use. */
  readonly registry: Registry;
  dispose(): Promise<void>;
}

export interface TokenizerPort {
  readonly vocabularySize: number;
  /** The model's own ends of an answer. */
  readonly endTokens: readonly number[];
  /** `control`: names of control tokens become these tokens, and BOS is added where the model wants it. */
  encode(text: string, control: boolean): Int32Array;
  /** The same for a text of any size, a few milliseconds at a time, until `signal` ends it. */
  encodeInSlices(text: string, control: boolean, signal?: AbortSignal): Promise<Int32Array>;
  /** Fewer tokens than this the text cannot have. */
  fewestTokens(text: string): number;
  /** Control tokens by their names. */
  decode(ids: ArrayLike<number>): string;
  /** Bytes of one token; of a control token, its name. */
  bytes(id: number): Uint8Array;
  assembly(stops: readonly string[]): TextAssembly;
}
