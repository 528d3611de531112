import v8 from "node:v8";
import vm from "node:vm";
import { describe, expect, it } from "vitest";
import { RadixTree, type EvictionPolicy, type Path } from "../src/index.ts";
import { Random } from "./support.ts";

/** A value that is its length: what the tree itself needs is measured, not what it holds. */
const lengths = {
  calls: 0,
  split(value: number, at: number): [number, number] {
    this.calls++;
    return [at, value - at];
  },
  retain(value: number): number {
    this.calls++;
    return value;
  },
  release(): void {
    this.calls++;
  },
};

const plain = (tokens: Int32Array): Path => ({ tokens, events: [] });

function collectGarbage(): number {
  v8.setFlagsFromString("--expose-gc");
  const gc = vm.runInNewContext("gc") as () => void;
  gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe("budgets of a tree", () => {
  const nodes = process.env["PALIMPSEST_LONG"] === "1" ? 1_000_000 : 100_000;

  it(`holds ${nodes} nodes of 16 cells in less than 400 bytes each`, { timeout: 600_000 }, () => {
    for (const turns of [1, 50]) {
      const tree = new RadixTree<number>(lengths);
      const before = collectGarbage();
      for (let i = 0; i < nodes / turns; i++) {
        const path = plain(Int32Array.from({ length: turns * 16 }, (_, j) => (j === 0 ? i : j)));
        for (let turn = 0; turn < turns; turn++) tree.insert("n", path, turn * 16, turn * 16 + 16, 16).release();
      }
      const each = (collectGarbage() - before) / tree.stats().nodes;
      expect(tree.stats().nodes).toBe(nodes);
      console.log(`${nodes} nodes in chains of ${turns}: ${each.toFixed(0)} bytes each`);
      expect(each).toBeLessThan(400);
    }
  });

  it("asks for a priority once for each node of a lease, and not at all for the others, when one of 100,000 is evicted", () => {
    let asked = 0;
    const policy: EvictionPolicy = { priority: (node) => (asked++, node.lastUse) };
    const tree = new RadixTree<number>(lengths, { policy });
    for (let i = 0; i < 100_000; i++) tree.insert("n", plain(Int32Array.of(i, 1, 2, 3)), 0, 4, 4).release();
    asked = 0;
    lengths.calls = 0;
    for (let i = 0; i < 1_000; i++) expect(tree.evict(1)).toBe(4);
    expect([asked, lengths.calls]).toEqual([0, 1_000]);
    tree.match("n", plain(Int32Array.of(50_000, 1, 2, 3))).release();
    expect(asked).toBe(1);
  });

  it("copies the tokens of an insertion once and those of a split never", () => {
    const tree = new RadixTree<number>(lengths);
    const tokens = Int32Array.from({ length: 100_000 }, (_, i) => i);
    tree.insert("n", plain(tokens), 0, tokens.length, tokens.length).release();
    expect(tree.stats().tokensHeld).toBe(100_000);
    for (let i = 1; i < 1_000; i++) tree.match("n", plain(tokens), i * 100).release();
    expect(tree.stats()).toMatchObject({ nodes: 1_000, tokensHeld: 100_000 });
    tree.checkIntegrity();
  });

  it("gives the memory of tokens back when little of it is in use", () => {
    const random = new Random(3);
    const tree = new RadixTree<number>(lengths, { evictionCells: 100_000 });
    const keep: { release(): void }[] = [];
    for (let i = 0; i < 200; i++) {
      const tokens = Int32Array.from({ length: 100 + random.int(5_000) }, () => random.int(1_000));
      tokens[0] = i;
      tree.insert("n", plain(tokens), 0, tokens.length, tokens.length).release();
      keep.push(tree.match("n", plain(tokens), 5));
    }
    tree.evict(Infinity);
    const held = tree.stats().cells;
    expect(held).toBe(1_000);
    for (const lease of keep) lease.release();
    for (let i = 0; i < 400; i++) tree.insert("n", plain(Int32Array.of(1_000_000 + i)), 0, 1, 1).release();
    tree.checkIntegrity();
    expect(tree.stats().tokensHeld).toBeLessThan(2 * tree.stats().cells + 5 * 4_096);
  });
});
