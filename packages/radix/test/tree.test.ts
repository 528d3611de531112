import { describe, expect, it } from "vitest";
import { compare, RadixError, RadixTree } from "../src/index.ts";
import { Handles, identities, path, type Handle } from "./support.ts";

const NS = "model";

function setup(limits = {}) {
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops, { limits });
  const put = (text: string, from = 0, to = path(text).tokens.length, namespace = NS) => {
    const of = path(text);
    const lease = tree.insert(namespace, of, from, to, ops.make(identities(namespace, of, from, to)));
    tree.checkIntegrity();
    return lease;
  };
  const known = (text: string, namespace = NS) => tree.probe(namespace, path(text)).length;
  return { ops, tree, put, known };
}

const idOf = (word: string) => path(word).tokens[0]!;

const codeOf = (act: () => unknown) => {
  try {
    act();
  } catch (error) {
    return error instanceof RadixError ? error.code : String(error);
  }
  return "no error";
};

describe("outline", () => {
  it("makes a path known without cells, so that those behind it can be inserted", () => {
    const { tree, put, known, ops } = setup();
    put("a b").release();
    const place = tree.outline(NS, path("a b c [drop 0-1] d e f"), 5);
    expect(place.spans.map(({ start, length, value }) => [start, length, value === null])).toEqual([[0, 2, false], [2, 1, true], [3, 2, true]]);
    expect(known("a b c [drop 0-1] d e f")).toBe(5);
    put("a b c [drop 0-1] d e f", 4, 6).release();
    place.release();
    tree.checkIntegrity();
    expect(known("a b c [drop 0-1] d e f")).toBe(6);
    expect(tree.probe(NS, path("a b c [drop 0-1] d e f")).resident).toBe(4);
    expect(tree.evict(100)).toBe(4);
    expect(ops.open).toBe(0);
    expect(tree.stats()).toMatchObject({ nodes: 0, namespaces: 0, holes: 0 });
  });

  it("leaves nothing behind that nobody filled, and refuses what is no beginning", () => {
    const { tree } = setup();
    tree.outline(NS, path("a b c"), 2).release();
    expect(tree.stats()).toMatchObject({ nodes: 0, namespaces: 0 });
    for (const to of [0, -1, 4, 1.5]) expect(codeOf(() => tree.outline(NS, path("a b c"), to))).toBe("path_invalid");
    const { tree: full } = setup({ nodesMax: 2 });
    expect(codeOf(() => full.outline(NS, path("a b c"), 2))).toBe("nodes_exceeded");
    expect(full.stats()).toMatchObject({ nodes: 0, namespaces: 0 });
  });
});

describe("match", () => {
  it("finds the longest known beginning and takes a lease on it", () => {
    const { tree, put, ops } = setup();
    put("a b c d").release();
    const lease = tree.match(NS, path("a b x"));
    expect(lease.length).toBe(2);
    expect(lease.spans.map((span) => span.value?.cells.length)).toEqual([2]);
    expect(tree.evict(100)).toBe(2);
    expect(ops.tree.size).toBe(2);
    tree.checkIntegrity();
    lease.release();
    lease.release();
    expect(tree.evict(100)).toBe(2);
    expect(ops.open).toBe(0);
    expect(tree.stats()).toMatchObject({ nodes: 0, namespaces: 0, leases: 0, cells: 0 });
  });

  it("stops at the limit it was given", () => {
    const { tree, put } = setup();
    put("a b c d").release();
    const lease = tree.match(NS, path("a b c d"), 3);
    expect([lease.length, lease.end]).toEqual([3, "whole"]);
    lease.release();
  });

  it("says what differed and where", () => {
    const { tree, put, known } = setup();
    put("a b c d").release();
    const token = tree.match(NS, path("a b x d"));
    expect(token.end).toBe("token_differs");
    expect(token.difference).toEqual({ cell: 2, known: { event: null, token: path("c").tokens[0] }, asked: { event: null, token: path("x").tokens[0] } });
    token.release();
    const event = tree.match(NS, path("a b [drop] c d"));
    expect([event.length, event.end, event.difference?.asked.event]).toEqual([2, "event_differs", "drop"]);
    event.release();
    const whole = tree.match(NS, path("a b c d"));
    expect([whole.end, whole.difference]).toEqual(["whole", null]);
    whole.release();
    expect(tree.probe(NS, path("a b c d e")).end).toBe("unknown");
    expect(tree.probe("other", path("a b c d e")).end).toBe("unknown");
    expect(known("a b c d e")).toBe(4);
  });

  it("never lets one namespace see another", () => {
    const { put, known } = setup();
    put("a b c").release();
    expect(known("a b c", "other")).toBe(0);
  });

  it("ends in front of a node that it cannot split any more", () => {
    const { tree, put } = setup({ nodesMax: 5 });
    for (const text of ["a b", "x y", "c d", "e f"].slice(0, 2)) put(text).release();
    expect(codeOf(() => put("c d").release())).toBe("nodes_exceeded");
    for (const text of ["a q", "x q"]) tree.match(NS, path(text)).release();
    expect(tree.stats().nodes).toBe(4);
    tree.checkIntegrity();
  });
});

describe("two paths", () => {
  it("are compared by the first cell in which token or event differ", () => {
    expect(compare(path("a b c"), path("a b c d"))).toBeNull();
    expect(compare(path("a b c"), path("a x c"))).toEqual({ cell: 1, known: { event: null, token: idOf("b") }, asked: { event: null, token: idOf("x") } });
    expect(compare(path("a [e] b"), path("a [f] b"))?.asked).toEqual({ event: "f", token: idOf("b") });
    expect(compare(path("a b [e] c"), path("a b c"))).toMatchObject({ cell: 2, known: { event: "e" }, asked: { event: null } });
    expect(compare(path("[e] a"), path("a"))?.cell).toBe(0);
    expect(compare(path("a [e]"), path("a"))).toBeNull();
    expect(compare(path("a [e] b [f] c"), path("a [e] b [f] d"))).toMatchObject({ cell: 2, known: { event: "f" }, asked: { event: "f" } });
  });
});

describe("events", () => {
  it("share exactly the cells before the earlier event", () => {
    const { put, known } = setup();
    put("a b c d [e1] e f").release();
    expect(known("a b [e1] c d e f")).toBe(2);
    expect(known("a b c d [e2] e f")).toBe(4);
    expect(known("a b c d e f")).toBe(4);
    expect(known("a b c d [e1] e f")).toBe(6);
    put("a b c d e f").release();
    expect(known("a b c d e f")).toBe(6);
    expect(known("a b c d [e1] e g")).toBe(5);
  });

  it("at the end of a path are no part of a match", () => {
    const { put, known } = setup();
    put("a b").release();
    expect(known("a b [e1]")).toBe(2);
  });

  it("in front of the first cell tell two paths apart", () => {
    const { put, known } = setup();
    put("[e1] a b").release();
    expect(known("a b")).toBe(0);
    expect(known("[e2] a b")).toBe(0);
    expect(known("[e1] a b")).toBe(2);
  });
});

describe("insert", () => {
  it("keeps the values that are there and returns them as a lease", () => {
    const { tree, put, ops } = setup();
    const first = put("a b c d");
    const own = first.spans[0]!.value!.cells;
    const second = put("a b c d e");
    expect(second.spans.flatMap((span) => span.value!.cells).slice(0, 4)).toEqual(own);
    expect(ops.holders(own[0]!)).toBe(3);
    first.release();
    second.release();
    expect(ops.holders(own[0]!)).toBe(1);
    expect(tree.stats().cells).toBe(5);
  });

  it("fills holes and leaves the rest", () => {
    const { tree, put, ops } = setup();
    put("a b c d").release();
    const tail = put("a b c d e f g", 4);
    expect(tree.evict(100)).toBe(4);
    tree.checkIntegrity();
    expect(tree.stats()).toMatchObject({ cells: 3, holes: 1, holeCells: 4 });
    const lease = tree.match(NS, path("a b c d e"));
    expect(lease.spans.map((span) => [span.start, span.length, span.value !== null])).toEqual([[0, 4, false], [4, 1, true]]);
    put("a b c d e", 1, 3).release();
    expect(tree.stats()).toMatchObject({ cells: 5, holes: 2, holeCells: 2 });
    put("a b c d e", 0, 5).release();
    expect(tree.stats()).toMatchObject({ cells: 7, holes: 0 });
    lease.release();
    tail.release();
    expect(ops.tree.size).toBe(7);
  });

  it("prunes holes when nothing needs them any more", () => {
    const { tree, put, ops } = setup();
    put("a b c d").release();
    const tail = put("a b c d e f g", 4);
    tree.evict(100);
    tail.release();
    tree.evict(100);
    expect(tree.stats()).toMatchObject({ nodes: 0, holes: 0, namespaces: 0 });
    expect(ops.open).toBe(0);
  });

  it("refuses a path whose beginning is not known, and keeps nothing of it", () => {
    const { tree, put, ops } = setup();
    expect(codeOf(() => put("a b c", 1))).toBe("path_unknown");
    expect(tree.stats().namespaces).toBe(0);
    expect(ops.open).toBe(1);
  });
});
