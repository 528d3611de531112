import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fold, type Directive, type Fold } from "@palimpsest/directives";
import { Engine } from "@palimpsest/engine";
import { openRuntime, writeTinyModel, type KernelLevel } from "@palimpsest/kernels-cuda";
import { afterAll, expect, test } from "vitest";
import { Random } from "../packages/directives/test/random-logs.ts";
import { collect, requestOf } from "../packages/engine/test/kit/harness.ts";
import { proseTokens } from "./kit/models.ts";
import { describeWithModel } from "./real-models.ts";

const folder = mkdtempSync(join(tmpdir(), "palimpsest-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function keysOf({ events }: Fold): Map<number, string> {
  return new Map(events.map(({ cell, key }) => [cell, key]));
}

/** Cells of two paths that agree in ids and in the events before them. */
function shared(a: Fold, aTokens: readonly number[], b: Fold): number {
  const [aKeys, bKeys] = [keysOf(a), keysOf(b)];
  let cell = 0;
  while (cell < Math.min(aTokens.length, b.tokens.length) && aTokens[cell] === b.tokens[cell] && aKeys.get(cell) === bKeys.get(cell)) cell++;
  return cell;
}

/**
 * An agent's log of ten parts, sent turn by turn with the answers in between; after the seventh the third part is dropped and what is
 * left is repositioned. Answers the last turn's log-probabilities, and those of a fresh engine that sees only the last turn.
 */
async function tenTurns(path: string, kernels: KernelLevel, text: ArrayLike<number>, partTokens: number, when: "at once" | "a turn later") {
  const open = async () => {
    const runtime = await openRuntime(path, { kernels, cacheDtype: kernels === "reference" ? "f32" : "f16", pages: 200, threads: 2 });
    const engine: Engine = new Engine({ runtime, onStep: () => engine.checkIntegrity() });
    return { engine, close: () => engine.dispose().then(() => runtime.dispose()) };
  };
  const { engine, close } = await open();
  const log: number[] = [];
  const parts: [number, number][] = [];
  let directives: Directive[] = [];
  let before: { fold: Fold; tokens: number[] } | null = null;
  let last = null;
  for (let turn = 1; turn <= 10; turn++) {
    parts.push([log.length, log.length + partTokens]);
    for (let i = 0; i < partTokens; i++) log.push(text[(turn * 131 + i) % text.length]!);
    const edit: Directive[] = [
      { op: "drop", target: { tokens: parts[2]! }, at: { token: parts[6]?.[1] ?? 0 } },
      { op: "reposition", at: { token: parts[6]?.[1] ?? 0 } },
    ];
    if (turn >= (when === "at once" ? 7 : 8)) directives = edit;
    const folded = fold({ tokens: Int32Array.from(log), header: log.length, contextLength: 8192 }, directives);
    const request = requestOf(folded, log.length, { maxTokens: 6, logprobs: 5 });
    const answer = await collect(engine.generate(request));
    const known = before === null ? 0 : shared(before.fold, before.tokens, folded);
    const { report } = answer;
    expect(report.computed_tokens, `turn ${turn}: only what is new is computed`).toBe(log.length - known);
    expect(report).toMatchObject({ bytes_moved: 0, recovered_tokens: 0, forward_steps: 1 });
    expect(report.cached_tokens + report.repositioned_tokens + report.computed_tokens + report.skipped_tokens).toBe(log.length);
    if (directives.length > 0 && turn > 7) expect(report).toMatchObject({ skipped_tokens: partTokens, visible_tokens: log.length - partTokens, next_position: log.length - partTokens });
    last = { request, answer };
    before = { fold: folded, tokens: [...log, ...answer.tokens.slice(0, -1)] };
    log.push(...answer.tokens);
  }
  await close();
  const fresh = await open();
  const cold = await collect(fresh.engine.generate(last!.request));
  await fresh.close();
  return { warm: last!.answer, cold };
}

const random = new Random(1);
const anyTokens = Array.from({ length: 3000 }, () => random.int(0, 511));

test.each(["at once", "a turn later"] as const)("ten turns with one part dropped after the seventh, %s, compute only what is new, and end as a fresh engine does", async (when) => {
  const path = join(folder, "tiny.gguf");
  await writeTinyModel(path, { vocabularySize: 512, seed: 11 });
  const { warm, cold } = await tenTurns(path, "reference", anyTokens, 23, when);
  expect(warm.logprobs).toStrictEqual(cold.logprobs);
  expect(warm.tokens).toStrictEqual(cold.tokens);
});

describeWithModel("smollm2-135m", "On SmolLM2-135M", (path) => {
  test.each(["reference", "auto"] as const)("the same, level %s", async (level) => {
    const { warm, cold } = await tenTurns(path, level as KernelLevel, await proseTokens(path), 17, "at once");
    expect(warm.logprobs).toStrictEqual(cold.logprobs);
    expect(cold.report.computed_tokens).toBeGreaterThan(200);
  }, 300_000);
});
