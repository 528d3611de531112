import { describe, expect, it } from "vitest";
import { RadixTree, type Path } from "../src/index.ts";
import { Handles, identities, Random, type Handle } from "./support.ts";

const plain = (tokens: readonly number[]): Path => ({ tokens: Int32Array.from(tokens), events: [] });

function setup(content: { windowCells?: number; cellsMin?: number } = { windowCells: 8, cellsMin: 16 }) {
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops, { content, evictionCells: 10 });
  const put = (path: Path, from = 0) => {
    const lease = tree.insert("n", path, from, path.tokens.length, ops.make(identities("n", path, from, path.tokens.length)));
    tree.checkIntegrity();
    return lease;
  };
  return { ops, tree, put };
}

const text = (seed: number, length: number) => {
  const random = new Random(seed);
  return Array.from({ length }, () => random.int(1_000));
};

describe("texts that stand elsewhere in the tree", () => {
  const file = text(1, 100);
  const first = plain([...text(2, 40), ...file, ...text(3, 30)]);
  const again = plain([...text(4, 25), ...file, ...text(5, 10)]);

  it("are found where they were moved to, whole, when an approximation is asked for", () => {
    const { tree, put, ops } = setup();
    put(first).release();
    const [match, ...others] = tree.findContent("n", again, 0, { approximate: true });
    expect(others).toEqual([]);
    expect([match!.at, match!.length, match!.sourceAt, match!.exact]).toEqual([25, 100, 40, false]);
    expect(match!.lease.spans.flatMap((span) => span.value!.cells)).toEqual(identities("n", first, 40, 140));
    expect(match!.source.tokens).toEqual(first.tokens.slice(0, 140));
    expect(tree.evict(1_000)).toBe(70);
    match!.lease.release();
    tree.evict(1_000);
    expect([tree.stats().nodes, ops.open]).toEqual([0, 0]);
  });

  it("are never offered silently: without being asked for, only what the caller says is the same", () => {
    const { tree, put } = setup();
    put(first).release();
    expect(tree.findContent("n", again, 0)).toEqual([]);
    const seen: unknown[] = [];
    const sameContext = (source: Path, sourceAt: number, path: Path, at: number, length: number) => {
      seen.push([source.tokens.length, sourceAt, path.tokens.length, at, length]);
      return true;
    };
    const [match] = tree.findContent("n", again, 0, { sameContext });
    expect(seen).toEqual([[140, 40, 135, 25, 100]]);
    expect(match!.exact).toBe(true);
    match!.lease.release();
    expect(tree.findContent("n", again, 0, { sameContext: () => false })).toEqual([]);
  });

  it("are found in the namespace that is asked, behind the cell that is asked, up to so many", () => {
    const { tree, put } = setup();
    put(first).release();
    expect(tree.findContent("m", again, 0, { approximate: true })).toEqual([]);
    const [tail] = tree.findContent("n", again, 60, { approximate: true });
    expect([tail!.at, tail!.length, tail!.sourceAt]).toEqual([60, 65, 75]);
    expect(tree.findContent("n", again, 0, { approximate: true, matchesMax: 0 })).toEqual([]);
  });

  it("are found across turns, also when they are shorter than a window, and around what branches off", () => {
    const { tree, put } = setup();
    for (let from = 0; from < first.tokens.length; from += 5) put({ tokens: first.tokens.slice(0, from + 5), events: [] }, from).release();
    put(plain([...first.tokens.slice(0, 90), ...text(9, 20)])).release();
    const [match] = tree.findContent("n", again, 0, { approximate: true });
    expect([match!.at, match!.length, match!.sourceAt]).toEqual([25, 100, 40]);
  });

  it("end where an event stands in either path", () => {
    const { tree, put } = setup();
    put({ ...first, events: [{ at: 90, key: "e" }] }).release();
    const here = { ...again, events: [{ at: 45, key: "e" }] };
    const matches = tree.findContent("n", here, 0, { approximate: true });
    expect(matches.map(({ at, length, sourceAt }) => [at, length, sourceAt])).toEqual([[25, 20, 40], [45, 30, 60], [75, 50, 90]]);
  });

  it("are offered as far as they have cells", () => {
    const { tree, put } = setup();
    put(first).release();
    const lease = tree.match("n", first);
    lease.skip(70, 80);
    tree.evict(1);
    const matches = tree.findContent("n", again, 0, { approximate: true });
    expect(matches.map(({ at, length }) => [at, length])).toEqual([[25, 30], [65, 60]]);
    lease.release();
  });

  it("are forgotten with the nodes, and leave no memory behind", () => {
    const { tree, put } = setup();
    put(first).release();
    tree.evict(100);
    const kept = tree.findContent("n", again, 0, { approximate: true });
    expect(kept.map(({ at, length }) => [at, length])).toEqual([[25, 30]]);
    kept[0]!.lease.release();
    tree.evict(1_000);
    expect(tree.stats().nodes).toBe(0);
    put(plain([1])).release();
    expect(tree.findContent("n", again, 0, { approximate: true })).toEqual([]);
  });

  it("need a tree that keeps an index", () => {
    const tree = new RadixTree<Handle>(new Handles());
    expect(() => tree.findContent("n", again, 0)).toThrow("make it with `content`");
  });

  it("are right in random trees under eviction, and found whenever they are long enough", () => {
    let found = 0;
    for (let seed = 1; seed <= 30; seed++) {
      const random = new Random(seed);
      const { tree, put } = setup({ windowCells: 4, cellsMin: 6 });
      const parts = Array.from({ length: 6 }, (_, i) => text(100 * seed + i, 5 + random.int(30)));
      for (let i = 0; i < 12; i++) {
        const chosen = Array.from({ length: 1 + random.int(4) }, () => random.pick(parts));
        put(plain(chosen.flat())).release();
        if (seed % 2 === 0 && random.int(3) === 0) tree.evict(10);
        const asked = random.pick(chosen);
        const path = plain([...text(seed * 7 + i, 3), ...asked]);
        const matches = tree.findContent("n", path, 0, { approximate: true });
        // 4 cells of a window and 7 more: at least one window of them is remembered.
        if (seed % 2 === 1 && asked.length >= 11) expect(matches.length).toBeGreaterThan(0);
        for (const { at, length, source, sourceAt, lease } of matches) {
          expect(length).toBeGreaterThanOrEqual(6);
          expect(path.tokens.slice(at, at + length)).toEqual(source.tokens.slice(sourceAt, sourceAt + length));
          expect(lease.spans.flatMap((span) => span.value!.cells)).toEqual(identities("n", source, sourceAt, sourceAt + length));
          lease.release();
          found++;
        }
        tree.checkIntegrity();
      }
    }
    expect(found).toBeGreaterThan(200);
  });
});
