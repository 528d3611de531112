import { expect, test } from "vitest";
import { collect, request, scriptedEngine } from "./kit/harness.ts";

test("speeds are unknown until steps have shown them, and are those of prompts and of decoding apart", async () => {
  let now = 0;
  const { engine } = scriptedEngine({ pages: 100 }, {}, () => (now += 50));
  expect(engine.state().rates).toEqual({ prefillTokensPerSecond: null, decodeStepSeconds: null });
  await collect(engine.generate(request(Array.from({ length: 4 }, (_, i) => i), [], { maxTokens: 1 })));
  expect(engine.state().rates, "four rows say nothing").toEqual({ prefillTokensPerSecond: null, decodeStepSeconds: null });
  await collect(engine.generate(request(Array.from({ length: 40 }, (_, i) => 9 + i), [], { maxTokens: 5 })));
  const { prefillTokensPerSecond, decodeStepSeconds } = engine.state().rates;
  // Each look at the clock takes 50 ms, a step is two looks, and others may look in between.
  expect(decodeStepSeconds! * 1000).toBeGreaterThanOrEqual(50);
  expect(decodeStepSeconds! * 1000).toBeLessThan(300);
  expect(prefillTokensPerSecond! / (40 / decodeStepSeconds!)).toBeCloseTo(1, 0);
});
