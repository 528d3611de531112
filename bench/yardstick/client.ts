import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import { yardstick } from "./build.mjs";

/** llama.cpp in a process of its own: one line in, one measured answer out. */
export class Yardstick {
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #answers: AsyncIterator<string>;

  constructor(level: "native" | "avx2" = "native") {
    // Its threads spin as they do by default: told to sleep at every barrier, llama.cpp decodes at a third of its speed. They stop some
    // milliseconds after a command, before ours begins.
    this.#process = spawn(yardstick(level));
    this.#answers = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  async #ask(line: string): Promise<{ ok?: boolean; ms?: number }> {
    this.#process.stdin.write(`${line}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error("the yardstick process ended");
    return JSON.parse(value) as { ok?: boolean; ms?: number };
  }

  async load(file: string, context: number, threads: number, cells: "f32" | "f16" | "q8_0"): Promise<void> {
    if ((await this.#ask(`load ${file} ${context} ${threads} ${cells}`)).ok !== true) throw new Error(`llama.cpp could not load ${file}`);
  }

  async #measure(line: string): Promise<number> {
    const { ms = -1 } = await this.#ask(line);
    if (ms < 0) throw new Error(`llama.cpp failed at: ${line}`);
    return ms;
  }

  /** Milliseconds for `rows` new tokens behind `depth` cached ones. */
  prefill = (rows: number, depth: number): Promise<number> => this.#measure(`prefill ${rows} ${depth}`);

  /** Milliseconds for `tokens` steps of one row for each of `streams`. */
  decode = (tokens: number, depth: number, streams = 1): Promise<number> => this.#measure(`decode ${tokens} ${depth} ${streams}`);

  /** Milliseconds to remove `dropped` of `depth` cached tokens, move the rest and decode the next token. */
  shift = (depth: number, dropped: number): Promise<number> => this.#measure(`shift ${depth} ${dropped}`);

  /** Milliseconds of one product of `inputs` rows with a matrix in the layout that ggml takes for this processor. */
  multiply = (type: string, rows: number, columns: number, inputs: number, threads: number, repeats: number): Promise<number> =>
    this.#measure(`multiply ${type} ${rows} ${columns} ${inputs} ${threads} ${repeats}`);

  /** Milliseconds of one attention of `rows` rows over `cells` cells. */
  attend = (type: string, shape: { heads: number; kvHeads: number; headSize: number }, cells: number, rows: number, threads: number, repeats: number): Promise<number> =>
    this.#measure(`attend ${type} ${shape.heads} ${shape.kvHeads} ${shape.headSize} ${cells} ${rows} ${threads} ${repeats}`);

  /** Writes the f32 logits of every row to `out`; the context is emptied every `window` tokens. */
  async logits(out: string, tokens: ArrayLike<number>, window: number): Promise<void> {
    if ((await this.#ask(`logits ${out} ${window} ${Array.from(tokens).join(" ")}`)).ok !== true) throw new Error("llama.cpp could not compute the logits");
  }

  close(): void {
    this.#process.kill();
  }
}
