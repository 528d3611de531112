import { describe, expect, it } from "vitest";
import { costAware, RadixError, RadixTree, RANK, type Evicted, type TreeOptions } from "../src/index.ts";
import { Handles, identities, path, type Handle } from "./support.ts";

const NS = "model";

function setup(options: TreeOptions<Handle> = {}) {
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops, options);
  const put = (text: string, from = 0) => {
    const of = path(text);
    return tree.insert(NS, of, from, of.tokens.length, ops.make(identities(NS, of, from, of.tokens.length)));
  };
  const resident = (text: string) => tree.probe(NS, path(text)).resident;
  return { ops, tree, put, resident };
}

const codeOf = (act: () => unknown) => {
  try {
    act();
  } catch (error) {
    return error instanceof RadixError ? error.code : String(error);
  }
  return "no error";
};

describe("eviction", () => {
  it("takes the least recently used leaf first, and what leads to it last", () => {
    const { tree, put, resident } = setup();
    put("a b c d").release();
    put("a b x y").release();
    tree.match(NS, path("a b c d")).release();
    tree.evict(1);
    expect([resident("a b c d"), resident("a b x y")]).toEqual([4, 2]);
    tree.evict(1);
    expect(resident("a b c d")).toBe(2);
    tree.evict(1);
    expect(tree.stats().cells).toBe(0);
  });

  it("takes a long leaf from its end, piece by piece", () => {
    const { tree, put, resident } = setup({ evictionCells: 2 });
    put("a b c d e f g").release();
    expect(tree.evict(3)).toBe(4);
    expect(resident("a b c d e f g")).toBe(3);
    tree.checkIntegrity();
  });

  it("stops when it is told that enough is free, and says when nothing is left", () => {
    const { tree, put } = setup({ evictionCells: 1 });
    put("a b c d").release();
    let pieces = 0;
    expect(tree.evictUntil(() => ++pieces === 2)).toBe(true);
    expect(tree.stats().cells).toBe(2);
    expect(tree.evictUntil(() => false)).toBe(false);
    expect(tree.evict(0)).toBe(0);
  });

  it("tells what it takes, with the way to it", () => {
    const told: unknown[] = [];
    const { tree, put } = setup({
      evictionCells: 2,
      onEvict: (evicted: Evicted<Handle>) => {
        const { tokens, events } = evicted.path();
        told.push([evicted.namespace, evicted.start, evicted.length, evicted.value.cells.length, [...tokens], events]);
        told.push(evicted.before(3).map((span) => [span.start, span.length]));
      },
    });
    const of = path("a b [e1] c d e");
    put("a b [e1] c d e").release();
    tree.evict(1);
    expect(told).toEqual([[NS, 3, 2, 2, [...of.tokens], [{ at: 2, key: "e1" }]], [[0, 2], [2, 1]]]);
  });

  it("takes cells that nobody reads any more before all others, and leaves what lies behind them", () => {
    const { tree, put, resident } = setup();
    put("old leaf").release();
    const lease = put("a b c d [drop] e f");
    lease.skip(1, 3);
    expect(lease.spans.map((span) => [span.start, span.length, span.value !== null])).toEqual([[0, 1, true], [1, 2, false], [3, 1, true], [4, 2, true]]);
    expect(tree.evict(2)).toBe(2);
    expect([resident("old leaf"), resident("a b c d [drop] e f")]).toEqual([2, 4]);
    tree.checkIntegrity();
    lease.release();
    tree.checkIntegrity();
    expect(tree.match(NS, path("a b c d [drop] e f")).spans.map((span) => span.value !== null)).toEqual([true, false, true, true]);
  });

  it("keeps cells that one lease skips for another that reads them, and for a match that reads them again", () => {
    const { tree, put, resident } = setup();
    const reader = put("a b c d");
    const skipper = tree.match(NS, path("a b c d"));
    skipper.skip(0, 4);
    expect(tree.evict(10)).toBe(0);
    reader.skip(0, 4);
    tree.match(NS, path("a b c d")).release();
    put("z").release();
    tree.match(NS, path("a b c d")).release();
    expect(tree.evict(1)).toBe(1);
    expect([resident("a b c d"), resident("z")]).toEqual([4, 0]);
    skipper.release();
    reader.release();
    tree.checkIntegrity();
  });

  it("takes lower ranks first, until a match reads them again", () => {
    const { tree, put, resident } = setup();
    const scratch = put("a b");
    scratch.rank(0, 2, RANK.low);
    put("c d").release();
    scratch.release();
    tree.match(NS, path("c d")).release();
    tree.evict(1);
    expect([resident("a b"), resident("c d")]).toEqual([0, 2]);
  });

  it("by cost keeps what is deep and used often over what is cheap to compute again", () => {
    const { tree, put, resident } = setup({ policy: costAware({ depthCells: 2 }), evictionCells: 100 });
    put("a b c d e f g h i j").release();
    put("x y").release();
    for (let i = 0; i < 3; i++) tree.match(NS, path("a b c d e f g h i j")).release();
    tree.match(NS, path("x y")).release();
    tree.evict(1);
    expect([resident("a b c d e f g h i j"), resident("x y")]).toEqual([10, 0]);
  });

  it("by cost forgets in time what was used often once", () => {
    const { tree, put, resident } = setup({ policy: costAware({ depthCells: 1000 }) });
    put("old one").release();
    for (let i = 0; i < 4; i++) tree.match(NS, path("old one")).release();
    for (let i = 0; i < 20; i++) {
      put(`fresh${i}`).release();
      put(`fresh${i}b`).release();
      tree.evict(2);
    }
    expect(resident("old one")).toBe(0);
  });
});

describe("pins", () => {
  it("stay when everything else goes, and go when an eviction revokes them", () => {
    const { tree, put, resident } = setup();
    const lease = put("a b c d");
    const pin = lease.pin(0, 2, { account: "t", until: Infinity });
    lease.release();
    put("x").release();
    expect(tree.evict(100)).toBe(3);
    expect([resident("a b"), pin.active, pin.cells, tree.pinnedCells("t")]).toEqual([2, true, 2, 2]);
    expect(tree.evict(100, { revokePins: true })).toBe(2);
    pin.release();
    pin.release();
    expect([pin.active, tree.stats().nodes, tree.stats().pinnedCells]).toEqual([false, 0, 0]);
  });

  it("end by the clock", () => {
    let now = 0;
    const { tree, put } = setup({ clock: () => now });
    const lease = put("a b c d");
    const pin = lease.pin(1, 3, { account: "t", until: 10 });
    lease.release();
    expect(tree.evict(100)).toBe(2);
    now = 10;
    expect(tree.evict(100)).toBe(2);
    expect([pin.active, tree.stats().nodes]).toEqual([false, 0]);
    tree.checkIntegrity();
  });

  it("never exceed the budget of their account: pinning sessions until the pool is full cannot block it", () => {
    const { tree, put } = setup({ limits: { pinnedCellsMax: 3, pinsMax: 4 } });
    const lease = put("a b c d");
    lease.pin(0, 2, { account: "t", until: Infinity });
    expect(codeOf(() => lease.pin(2, 4, { account: "t", until: Infinity }))).toBe("pins_exceeded");
    const other = lease.pin(2, 4, { account: "u", until: Infinity });
    lease.pin(3, 4, { account: "t", until: Infinity });
    lease.pin(0, 1, { account: "u", until: Infinity });
    expect(codeOf(() => lease.pin(0, 1, { account: "v", until: Infinity }))).toBe("pins_exceeded");
    other.release();
    expect(tree.pinnedCells("u")).toBe(1);
    lease.release();
    tree.checkIntegrity();
    expect(codeOf(() => lease.pin(0, 1, { account: "v", until: Infinity }))).toBe("lease_released");
  });
});

describe("limits", () => {
  it("are reached with errors that name them", () => {
    const small = { nodesMax: 6, namespacesMax: 1, pathCellsMax: 4, eventKeyLengthMax: 3 };
    const { tree, put, ops } = setup({ limits: small });
    put("a b").release();
    put("x y").release();
    expect(codeOf(() => put("c [e] d"))).toBe("nodes_exceeded");
    expect(codeOf(() => put("a b c d e"))).toBe("path_too_long");
    expect(codeOf(() => put("a [long] b"))).toBe("path_too_long");
    expect(codeOf(() => tree.insert("second", path("a"), 0, 1, ops.make(["a"])))).toBe("namespaces_exceeded");
    for (const name of Object.keys(tree.limits)) {
      expect(codeOf(() => new RadixTree(ops, { limits: { [name]: 0 } }))).toBe("limit_invalid");
    }
    expect(codeOf(() => new RadixTree(ops, { evictionCells: 0 }))).toBe("limit_invalid");
  });

  it("of nodes leave skips, ranks and pins to the nodes that lie wholly inside", () => {
    const { tree, put } = setup({ limits: { nodesMax: 5 } });
    const lease = put("a b c d");
    expect(tree.stats().nodes).toBe(1);
    tree.match(NS, path("a b x")).release();
    tree.match(NS, path("a b c x")).release();
    tree.match(NS, path("a x")).release();
    lease.skip(1, 4);
    expect(lease.spans.map((span) => span.value !== null)).toEqual([true, false]);
    tree.match(NS, path("a b c y")).release();
    tree.checkIntegrity();
    lease.release();
  });

  it("refuses ranges and events that are none", () => {
    const { tree, put } = setup();
    const lease = put("a b");
    expect(codeOf(() => lease.skip(0, 3))).toBe("path_invalid");
    expect(codeOf(() => lease.rank(1, 0, 0))).toBe("path_invalid");
    expect(codeOf(() => tree.match(NS, path("a"), -1))).toBe("path_invalid");
    const twice = { tokens: Int32Array.of(1, 2), events: [{ at: 1, key: "e" }, { at: 1, key: "f" }] };
    expect(codeOf(() => tree.match(NS, twice))).toBe("path_invalid");
    expect(codeOf(() => tree.match(NS, { tokens: Int32Array.of(1), events: [{ at: 2, key: "e" }] }))).toBe("path_invalid");
    lease.release();
  });
});
