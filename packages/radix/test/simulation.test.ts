import { describe, expect, it } from "vitest";
import { RadixTree, type MatchLease, type Path } from "../src/index.ts";
import { Handles, identities, Random, type Handle } from "./support.ts";

const SEEDS = process.env["PALIMPSEST_LONG"] === "1" ? 2_000 : 200;
const STEPS = 500;

/** Few tokens and few events, so that paths meet again and again. */
function randomPath(random: Random): Path {
  const length = 1 + random.int(14);
  const tokens = Int32Array.from({ length }, () => random.int(2));
  const events = [];
  for (let at = 0; at <= length; at++) if (random.int(8) === 0) events.push({ at, key: `e${random.int(2)}` });
  return { tokens, events };
}

/** Keeps everything in maps: which cells the tree may have, by the whole path that leads to them. */
class Model {
  readonly resident = new Set<string>();
}

function run(seed: number): void {
  const random = new Random(seed);
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops, { limits: { nodesMax: 300 } });
  const model = new Model();
  const leases: MatchLease<Handle>[] = [];
  const paths: Path[] = [];

  const match = (path: Path) => {
    const lease = tree.match("n", path, random.int(4) === 0 ? random.int(path.tokens.length + 1) : undefined);
    let cell = 0;
    for (const span of lease.spans) {
      expect(span.start).toBe(cell);
      const wanted = identities("n", path, cell, cell + span.length);
      if (span.value === null) for (const one of wanted) expect(model.resident.has(one)).toBe(false);
      else expect(span.value.cells).toEqual(wanted);
      cell += span.length;
    }
    expect(cell).toBe(lease.length);
    const beyond = identities("n", path, lease.length, path.tokens.length);
    if (lease.end !== "whole") expect(model.resident.has(beyond[0]!)).toBe(false);
    leases.push(lease);
  };

  const insert = (path: Path) => {
    const known = tree.probe("n", path).length;
    const from = random.int(Math.min(known, path.tokens.length - 1) + 1);
    const to = from + 1 + random.int(path.tokens.length - from);
    const cells = identities("n", path, from, to);
    const lease = tree.insert("n", path, from, to, ops.make(cells));
    for (const cell of cells) model.resident.add(cell);
    expect(lease.spans.flatMap((span) => span.value!.cells)).toEqual(cells);
    leases.push(lease);
  };

  for (let step = 0; step < STEPS; step++) {
    const action = random.int(10);
    if (action < 3) match(paths.length > 0 && random.int(2) === 0 ? random.pick(paths) : randomPath(random));
    else if (action < 6) {
      const path = randomPath(random);
      paths.push(path);
      if (tree.stats().nodes < 270) insert(path);
    } else if (action < 9 && leases.length > 0) {
      leases.splice(random.int(leases.length), 1)[0]!.release();
    } else {
      const before = new Set(ops.held.keys());
      const leased = new Set(leases.flatMap((lease) => lease.spans.flatMap((span) => span.value?.cells ?? [])));
      tree.evict(1 + random.int(5));
      for (const cell of leased) expect(ops.held.has(cell)).toBe(true);
      for (const cell of before) if (!ops.held.has(cell)) model.resident.delete(cell);
    }
    tree.checkIntegrity();
    expect(tree.stats().cells).toBe(model.resident.size);
  }
  for (const lease of leases) lease.release();
  tree.evict(Infinity);
  tree.checkIntegrity();
  expect(tree.stats()).toMatchObject({ nodes: 0, leases: 0, cells: 0, namespaces: 0 });
  expect(ops.open).toBe(0);
}

describe("a tree under random work", () => {
  it(`equals a map of all cells over ${SEEDS} seeds of ${STEPS} operations`, () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      try {
        run(seed);
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
  });
});
