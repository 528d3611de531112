import { expect, test } from "vitest";
import { collect, request, scriptedEngine } from "./kit/harness.ts";
import { expectedAnswer } from "./kit/oracle.ts";

const log = Array.from({ length: 40 }, (_, i) => (i * 7) % 61);

test("an answer is the same cold, warm, in chunks and on any size of page", async () => {
  const { engine, audit } = scriptedEngine();
  const cold = await collect(engine.generate(request(log)));
  const warm = await collect(engine.generate(request(log)));
  expect(cold.report).toMatchObject({ prompt_tokens: 40, computed_tokens: 40, cached_tokens: 0, forward_steps: 1, miss: { at_token: 0, reason: "new" } });
  expect(warm.report).toMatchObject({ computed_tokens: 1, cached_tokens: 39, skipped_tokens: 0, forward_steps: 1, miss: null });
  expect(warm.tokens).toStrictEqual(cold.tokens);
  expect(warm.logprobs).toStrictEqual(cold.logprobs);
  audit();
  for (const pageSize of [1, 5, 16]) {
    for (const rowsPerStepMax of [1, 3, 17, 512]) {
      const other = scriptedEngine({ pageSize, pages: 200 }, { rowsPerStepMax });
      const answer = await collect(other.engine.generate(request(log)));
      expect(answer.logprobs, `pages of ${pageSize}, ${rowsPerStepMax} rows`).toStrictEqual(cold.logprobs);
      other.audit();
    }
  }
});

test("a next turn that drops and repositions computes only what is new", async () => {
  const { engine, audit } = scriptedEngine();
  const first = await collect(engine.generate(request(log)));
  const next = [...log, ...first.tokens, 5, 6, 7];
  const directives = [
    { op: "drop", target: { tokens: [4, 20] as [number, number] }, at: { token: 44 } },
    { op: "reposition", at: { token: 44 } },
  ];
  const second = await collect(engine.generate(request(next, directives)));
  // The last token of the first answer was sampled and never run.
  expect(second.report).toMatchObject({ computed_tokens: 4, cached_tokens: 20, repositioned_tokens: 23, skipped_tokens: 0, bytes_moved: 0, forward_steps: 1 });
  audit();
  const fresh = scriptedEngine({ pageSize: 5 });
  const same = await collect(fresh.engine.generate(request(next, directives)));
  expect(same.logprobs).toStrictEqual(second.logprobs);
  fresh.audit();
});

test("what an edit brings may read what the same edit hides, and be hidden by it, in chunks of any size", async () => {
  const tokens = Array.from({ length: 50 }, (_, i) => (i * 11) % 61);
  const directives = [
    { op: "splice", target: { tokens: [0, 8] as [number, number] }, with: [1, 2], mode: "refresh", refresh_tokens: 3, at: { token: 40 } },
    { op: "splice", target: { tokens: [20, 24] as [number, number] }, with: [6], at: { token: 40 } },
    { op: "splice", target: { tokens: [24, 24] as [number, number] }, with: [7, 8, 9], mode: "refresh", refresh_tokens: 6, at: { token: 40 } },
  ];
  const expected = expectedAnswer({ tokens: Int32Array.from(tokens), header: 50, contextLength: 4096 }, directives, 4, 61);
  for (const rowsPerStepMax of [1, 2, 3, 5, 512]) {
    const { engine, audit } = scriptedEngine({ pageSize: 5, pages: 30 }, { rowsPerStepMax });
    const answer = await collect(engine.generate(request(tokens, directives)));
    expect(answer.logprobs.map((entry) => entry!.logprob), `${rowsPerStepMax} rows`).toStrictEqual(expected.logprobs);
    audit();
    await engine.dispose();
  }
});
