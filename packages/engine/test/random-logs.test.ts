import { fold } from "@palimpsest/directives";
import { expect, test } from "vitest";
import { Random } from "../../directives/test/random-logs.ts";
import { answerOf, check, family, requestFor, VOCABULARY } from "./kit/families.ts";
import { scriptedEngine } from "./kit/harness.ts";

const SEEDS = process.env.PALIMPSEST_LONG ? 3000 : 250;

test(`${SEEDS} families of random logs answer as their naive fold says, whatever the batch, chunk, page and what was evicted`, async () => {
  let evicted = 0;
  let refused = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = new Random(seed);
    const cases = family(random);
    const pageSize = random.pick([1, 5, 16]);
    const longest = Math.max(...cases.map(({ log, directives, maxTokens }) => fold(log, directives).tokens.length + maxTokens));
    // In part of the families not even the longest log fits whole: it runs alone, if what it hides on the way makes enough room.
    const pages = random.chance(0.25) ? Math.ceil((0.8 * longest) / pageSize) : Math.ceil(longest / pageSize) + random.int(0, 12);
    const { engine, audit } = scriptedEngine({ pageSize, pages, vocabularySize: VOCABULARY }, { rowsPerStepMax: random.int(1, 256), rowsBesideDecodeMax: random.int(1, 64), shareCellsMin: random.pick([1, 8, 1 << 20]) });
    for (let round = 0; round < 3; round++) {
      const together = random.shuffle(cases).slice(0, random.int(1, cases.length));
      const answers = await Promise.all(
        together.map((one) => answerOf(() => engine.generate(requestFor(one)))),
      );
      together.forEach((one, index) => {
        const answer = answers[index]!;
        if (answer !== "capacity") check(one, answer, seed);
        else if (pages * pageSize >= longest) throw new Error(`seed ${seed}: refused, though it fits`);
      });
      audit();
      evicted += answers.filter((answer) => answer !== "capacity" && answer.report.recovered_tokens > 0).length;
      refused += answers.filter((answer) => answer === "capacity").length;
      if (random.chance(0.6)) engine.evictUntilFree(random.int(1, pages));
    }
    await engine.dispose();
  }
  // The pools are small enough that cells had to be computed again.
  expect(evicted).toBeGreaterThan(SEEDS / 10);
  expect(refused).toBeGreaterThan(SEEDS / 50);
});
