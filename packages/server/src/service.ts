import type { Part, Range } from "@palimpsest/directives";
import type { CellDtype, Engine, KernelLevel, ModelInfo, TextAssembly } from "@palimpsest/engine";

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
  readonly tokenizer: TokenizerPort;
  /** Null where the model file has no chat template. */
  readonly chat: ChatPort | null;
  readonly engine: Engine;
  dispose(): Promise<void>;
}

export interface TokenizerPort {
  readonly vocabularySize: number;
  /** The model's own ends of an answer. */
  readonly endTokens: readonly number[];
  /** `control`: names of control tokens become these tokens, and BOS is added where the model wants it. */
  encode(text: string, control: boolean): Int32Array;
  /** Control tokens by their names. */
  decode(ids: ArrayLike<number>): string;
  /** Bytes of one token; of a control token, its name. */
  bytes(id: number): Uint8Array;
  assembly(stops: readonly string[]): TextAssembly;
}

/** What a template sees: content as one string, `developer` as `system`. */
export interface TemplateMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  reasoning_content?: string;
  name?: string;
  tool_call_id?: string;
  tool_calls?: readonly { id?: string; type: "function"; function: { name: string; arguments: unknown } }[];
}

export interface ChatRequest {
  messages: readonly TemplateMessage[];
  tools: readonly object[] | null;
  addGenerationPrompt: boolean;
  variables: Readonly<Record<string, unknown>>;
}

export interface RenderedChat {
  tokens: Int32Array;
  /** Message of each token; the generation header belongs to the number of messages. */
  owners: Int32Array;
  /** First token of the generation header; the number of tokens where there is none. */
  header: number;
  part?: (message: number, part: Part) => readonly Range[];
  text?: (message: number, exact: string, occurrence: number) => readonly Range[] | null;
}

export interface ChatPort {
  render(request: ChatRequest): RenderedChat;
}
