import { KernelError } from "@palimpsest/kernels-cuda";
import { expect, test } from "vitest";
import { collect, request, scriptedEngine } from "./kit/harness.ts";

const log = Array.from({ length: 30 }, (_, i) => (i * 5) % 61);

test("a step that fails ends its requests with the error's own kind, frees their pages, and the next request works", async () => {
  let fail: Error | null = new KernelError("native_panic", "injected");
  const { engine, audit } = scriptedEngine({
    onStep: () => {
      if (fail !== null) throw fail;
    },
  });
  await expect(collect(engine.generate(request(log)))).rejects.toMatchObject({ kind: "internal", code: "native_panic" });
  expect(engine.state()).toMatchObject({ running: 0, promisedPages: 0, pages: { leased: 0, cached: 0 } });
  fail = new Error("something else");
  await expect(collect(engine.generate(request(log)))).rejects.toMatchObject({ kind: "internal", code: "step_failed" });
  fail = null;
  const answer = await collect(engine.generate(request(log)));
  const other = scriptedEngine();
  expect(answer.logprobs).toStrictEqual((await collect(other.engine.generate(request(log)))).logprobs);
  audit();
});

test("cells of a failed step are never matched", async () => {
  let steps = 0;
  const { engine, audit } = scriptedEngine(
    {
      onStep: () => {
        if (++steps === 3) throw new KernelError("native_panic", "injected");
      },
    },
    { rowsPerStepMax: 8 },
  );
  await expect(collect(engine.generate(request(log)))).rejects.toMatchObject({ code: "native_panic" });
  const again = await collect(engine.generate(request(log)));
  expect(again.report.cached_tokens).toBe(16);
  audit();
});
