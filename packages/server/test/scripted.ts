import { setTimeout as sleep } from "node:timers/promises";
import type { ModelInfo, Runtime, Step, StepResult, TokenizerData } from "@palimpsest/kernels-cuda";

/** Ids of bytes are the bytes; the control tokens follow. */
export const IM_START = 256;
export const IM_END = 257;
export const END_OF_TEXT = 258;
/** Mark-up that is text for every tokenizer of this format. */
export const TOOL_CALL = 259;
export const VOCABULARY_SIZE = 260;

const CHAT_TEMPLATE =
  "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Like a template of a reasoning model: reasoning is shown, but only behind the last question. */
export const REASONING_TEMPLATE =
  "{% set ns = namespace(last=-1) %}{% for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}" +
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}" +
  "{% if message.reasoning_content and loop.index0 > ns.last %}{{ '<think>' + message.reasoning_content + '</think>' }}{% endif %}" +
  "{{ message.content + '<|im_end|>' + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/** Like Qwen 2.5's: tools, calls and results in Hermes' form. */
export const HERMES_TEMPLATE =
  "{% if tools %}{{ '<|im_start|>system\n' }}{% for tool in tools %}{{ tool | tojson + '\n' }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}" +
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}" +
  "{% for call in message.tool_calls or [] %}{{ '\n<tool_call>\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' + call.function.arguments | tojson + '}\n</tool_call>' }}{% endfor %}" +
  "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/** A vocabulary of single bytes with the control tokens of ChatML: every text has one tokenisation, which tests can compute by hand. */
export function byteTokenizerData(chatTemplate = CHAT_TEMPLATE): TokenizerData {
  const bytes = Array.from({ length: 256 }, (_, byte) => byteLevelCharacter(byte));
  const special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>"];
  return {
    model: "gpt2",
    pre: "smollm",
    tokens: [...bytes, ...special],
    tokenTypes: Int32Array.from([...bytes.map(() => 1), 3, 3, 3, 4]),
    merges: [],
    bos: null,
    eos: IM_END,
    eot: IM_END,
    addBos: false,
    chatTemplate,
  };
}

/** GPT-2's map from bytes to printable characters. */
function byteLevelCharacter(byte: number): string {
  const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  if (printable) return String.fromCodePoint(byte);
  const others = Array.from({ length: 256 }, (_, other) => other).filter((other) => !((other >= 33 && other <= 126) || (other >= 161 && other <= 172) || other >= 174));
  return String.fromCodePoint(256 + others.indexOf(byte));
}

export interface Script {
  /** Ids that an answer consists of, then the end of a turn for ever. Chosen by the request's seed; other seeds get script 0. */
  answers: Map<bigint, readonly number[]>;
  /** Each step takes so long. */
  stepMs: number;
  /** Throws inside the next step, once. */
  failNext: boolean;
}

export const scriptOf = (text: string): number[] => [...Buffer.from(text)];

const INFO: ModelInfo = {
  architecture: "scripted",
  name: "scripted",
  contextLength: 4096,
  vocabularySize: VOCABULARY_SIZE,
  layers: 1,
  embeddingLength: 8,
  heads: 1,
  kvHeads: 1,
  headSize: 8,
  groups: 1,
  quantization: "F32",
  parameters: 1,
  weightBytes: 4,
};

/** Log-probability of a token, whatever stands before it: the same for every grouping and batch. */
export const scriptedLogprob = (id: number): number => Math.fround(-(1 + (id % 13)) / 8);

/**
 * A model that says what a script says, token by token. It stands in for the weights only: everything above the step call is real. The
 * sampler's draw number is the index of a token in its answer, so what is said depends neither on batch nor on chunks.
 */
export class ScriptedRuntime implements Runtime {
  readonly info: ModelInfo;
  readonly level = "reference";
  readonly cacheDtype = "f32";
  readonly pages: number;
  readonly pageSize: number;
  readonly threads = 1;
  readonly pageBytes = 64;
  readonly script: Script = { answers: new Map([[0n, scriptOf("Hello.")]]), stepMs: 0, failNext: false };
  steps = 0;
  rows = 0;

  constructor(options: { pages?: number; pageSize?: number; contextLength?: number } = {}) {
    this.info = { ...INFO, contextLength: options.contextLength ?? INFO.contextLength };
    this.pages = options.pages ?? 1024;
    this.pageSize = options.pageSize ?? 16;
  }

  async step(step: Step, cancel: Int32Array): Promise<StepResult> {
    this.steps++;
    this.rows += step.token.length;
    if (this.script.stepMs > 0) await sleep(this.script.stepMs);
    if (Atomics.load(cancel, 0) !== 0) throw Object.assign(new Error("cancelled"), { kind: "cancelled", code: "step_cancelled" });
    if (this.script.failNext) {
      this.script.failNext = false;
      throw Object.assign(new Error("injected"), { kind: "internal", code: "native_panic" });
    }
    const ids = step.outTarget.map((target, output) => (target >= 0 ? target : this.sample(step, output)));
    const tops = [...step.outTop].flatMap((count) => Array.from({ length: count }, (_, rank) => rank * 13));
    return {
      ids,
      logprobs: Float32Array.from(ids, scriptedLogprob),
      topIds: Int32Array.from(tops),
      topLogprobs: Float32Array.from(tops, scriptedLogprob),
      counts: { rows: step.token.length, cellsStored: step.store.reduce((sum, stored) => sum + stored, 0), cellsRead: 0, rotations: 0, bytesMoved: 0 },
    };
  }

  private sample(step: Step, output: number): number {
    const sampler = step.samplers[step.outSampler[output] ?? 0];
    if (sampler === undefined) throw new Error("an output without a sampler");
    const answer = this.script.answers.get(sampler.seed) ?? this.script.answers.get(0n) ?? [];
    return answer[sampler.draw] ?? IM_END;
  }

  clearPages(): void {}

  async dispose(): Promise<void> {}
}
