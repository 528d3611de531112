import { fold } from "@palimpsest/directives";
import { Engine, openRuntime } from "@palimpsest/engine";

export async function example(path: string, tokens: Int32Array): Promise<number[]> {
  const runtime = await openRuntime(path, { pages: 256 });
  const engine = new Engine({ runtime });

  // Drop tokens 4 to 8 behind token 12, and close the gap: nothing is moved, nothing is computed again.
  const directives = [
    { op: "drop", target: { tokens: [4, 8] as [number, number] }, at: { token: 12 } },
    { op: "reposition", at: { token: 12 } },
  ];
  const log = { tokens, header: tokens.length, contextLength: runtime.info.contextLength };
  const generation = engine.generate({
    fold: fold(log, directives),
    promptTokens: tokens.length,
    maxTokens: 16,
    sampling: { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0n },
    logprobs: -1, // none
    echo: false,
    stopTokens: [],
    namespace: "alice",
  });

  const ids: number[] = [];
  for await (const event of generation) {
    if (event.type === "token") ids.push(event.id);
    if (event.type === "end") console.log(event.report.computed_tokens, event.report.repositioned_tokens);
  }
  await engine.dispose();
  await runtime.dispose();
  return ids;
}
