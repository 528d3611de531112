import { fold, type Directive } from "@palimpsest/directives";
import { Engine } from "@palimpsest/engine";
import type { Runtime } from "@palimpsest/kernels-cuda";
import { mainThreadMs } from "./machine.ts";
import { GREEDY, pagesOf } from "./probe.ts";

const STREAMS = 8;
const TOKENS = 64;

/** Per cent of the time of steps that the main thread computes, with eight streams decoding through the whole engine. */
export async function mainThreadShare(runtime: Runtime): Promise<number> {
  const engine = new Engine({ runtime });
  const ask = async (stream: number, maxTokens: number): Promise<void> => {
    const tokens = Int32Array.from({ length: 64 }, (_, i) => (i * 7919 + stream * 104_729) % runtime.info.vocabularySize);
    const log = { tokens, header: tokens.length, contextLength: runtime.info.contextLength };
    const generation = engine.generate({
      fold: fold(log, []),
      promptTokens: tokens.length,
      maxTokens,
      sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: GREEDY.seed },
      logprobs: -1,
      echo: false,
      stopTokens: [],
      namespace: "bench",
    });
    for await (const event of generation) void event;
  };
  const all = (maxTokens: number) => Promise.all(Array.from({ length: STREAMS }, (_, stream) => ask(stream, maxTokens)));
  await all(1); // the prompts' cells are there, what follows are decode steps
  const [start, before] = [performance.now(), mainThreadMs()];
  await all(TOKENS);
  const share = (100 * (mainThreadMs() - before)) / (performance.now() - start);
  await engine.dispose();
  return share;
}

/**
 * Microseconds to reposition `cells` cells: from the log with a drop and a reposition to the runs of the next step. No cell is touched:
 * what stands in the pool stays as it is.
 */
export function metadataMicroseconds(cells: number, pageSize: number): number {
  const log = { tokens: new Int32Array(cells), header: cells, contextLength: 2 * cells };
  const at = { token: cells };
  const directives: Directive[] = [{ op: "drop", target: { tokens: [100, 300] }, at }, { op: "reposition", at }];
  const start = performance.now();
  const view = fold(log, directives).births.at(-1)?.view ?? [];
  const pages = view.map((span) => pagesOf({ slot: span.cell, length: span.length }, pageSize));
  const microseconds = (performance.now() - start) * 1000;
  if (view.at(-1)?.shift !== -200 || pages.length !== view.length) throw new Error("the cells behind the drop did not move");
  return microseconds;
}
