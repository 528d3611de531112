import { describe, expect, it } from "vitest";
import { costAware } from "../src/index.ts";
import { Simulation } from "./model.ts";
import { Random } from "./support.ts";

/** A tenth of the whole in CI. */
const SEEDS = process.env["PALIMPSEST_LONG"] === "1" ? 1_000 : 100;
const STEPS = 500;

function run(seed: number, aware: boolean): number {
  const random = new Random(seed);
  const simulation = new Simulation(random, aware ? costAware({ depthCells: 8 }) : undefined);
  for (let step = 0; step < STEPS; step++) {
    try {
      simulation.step();
    } catch (error) {
      throw new Error(`seed ${seed}, step ${step}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
  }
  simulation.finish();
  return STEPS;
}

describe("a tree under random matches, insertions, evictions, skips, ranks, pins and erasures", () => {
  it(`equals a map of all cells, in ${SEEDS} seeds of ${STEPS} steps, by least recent use`, { timeout: 3_600_000 }, () => {
    let steps = 0;
    for (let seed = 1; seed <= SEEDS; seed++) steps += run(seed, false);
    expect(steps).toBe(SEEDS * STEPS);
  });

  it(`equals a map of all cells, in ${SEEDS} seeds of ${STEPS} steps, by cost`, { timeout: 3_600_000 }, () => {
    let steps = 0;
    for (let seed = 1; seed <= SEEDS; seed++) steps += run(100_000 + seed, true);
    expect(steps).toBe(SEEDS * STEPS);
  });
});
