import { describe, expect, it } from "vitest";
import { RadixError, RadixTree } from "../src/index.ts";
import { Handles, identities, ownedCells, path, type Handle } from "./support.ts";

const tokens = (text: string) => path(text).tokens;
const everywhere = () => true;

function setup() {
  const ops = new Handles();
  const tree = new RadixTree<Handle>(ops, { ownedCells, limits: { erasuresMax: 2 } });
  const put = (text: string, namespace = "n", since = tree.epoch) => {
    const of = path(text);
    return tree.insert(namespace, of, 0, of.tokens.length, ops.make(identities(namespace, of, 0, of.tokens.length)), since);
  };
  const resident = (text: string, namespace = "n") => tree.probe(namespace, path(text)).resident;
  return { ops, tree, put, resident };
}

describe("erase", () => {
  it("removes a text and everything computed after it, in all histories, and leaves other texts", () => {
    const { tree, put, resident, ops } = setup();
    put("sys secret word then more").release();
    put("sys secret word [drop secret] then more").release();
    put("sys [earlier] secret word then").release();
    put("sys secret other").release();
    put("sys public word").release();
    const erasure = tree.erase(everywhere, { tokens: tokens("sys secret word"), from: 1 });
    tree.checkIntegrity();
    expect(resident("sys secret word then more")).toBe(1);
    expect(resident("sys secret word [drop secret] then more")).toBe(1);
    expect(resident("sys [earlier] secret word then")).toBe(1);
    expect(resident("sys public word")).toBe(3);
    // "secret" was one cell of both texts; "other" is not after the text, and stays behind a hole.
    expect(resident("sys secret other")).toBe(2);
    expect([erasure.cells, erasure.readers, ops.erased]).toEqual([4 + 2 + 3, 0, 9]);
  });

  it("goes past a hole that went with the last cells behind it", () => {
    const { tree, put, resident, ops } = setup();
    put("sys secret word").release();
    const lease = tree.match("n", path("sys secret"));
    lease.skip(0, 2);
    lease.release();
    // What nobody reads goes first: "sys secret" is a hole, "word" is there.
    expect(tree.evict(2)).toBe(2);
    expect(resident("sys secret word")).toBe(1);
    tree.erase(everywhere, { tokens: tokens("sys secret word"), from: 1 });
    tree.checkIntegrity();
    expect([tree.stats().nodes, ops.open]).toEqual([0, 0]);
  });

  it("looks through the cells that events own", () => {
    const { tree, put, resident } = setup();
    put("sys [insert/2] new new secret word after").release();
    put("sys [insert/1] secret secret word word").release();
    tree.erase(everywhere, { tokens: tokens("sys secret word"), from: 1 });
    expect(resident("sys [insert/2] new new secret word after")).toBe(3);
    expect(resident("sys [insert/1] secret secret word word")).toBe(2);
  });

  it("takes what is there of the text, whatever was evicted behind it", () => {
    const { tree, put, resident } = setup();
    put("sys secret").release();
    put("sys secret other").release();
    put("sys secret [insert/1] new next").release();
    tree.erase(everywhere, { tokens: tokens("sys secret word"), from: 1 });
    expect(resident("sys secret")).toBe(1);
    expect(resident("sys secret other")).toBe(2);
    // What an event put behind a part of the text was computed with it.
    expect(resident("sys secret [insert/1] new next")).toBe(2);
    tree.checkIntegrity();
  });

  it("spares the path of the edited log", () => {
    const { tree, put, resident } = setup();
    put("x y y y z").release();
    put("x y y z").release();
    // The second y of x y y y z is forgotten: x y y z stays, though it begins with x y y.
    tree.erase(everywhere, { tokens: tokens("x y y"), from: 2, except: path("x y y z") });
    expect([resident("x y y z"), resident("x y y y z")]).toEqual([4, 3]);
    tree.checkIntegrity();
  });

  it("goes only where it is sent", () => {
    const { tree, put, resident } = setup();
    put("a b", "tenant 1").release();
    put("a b", "tenant 2").release();
    tree.erase((namespace) => namespace === "tenant 1", { tokens: tokens("a b"), from: 0 });
    expect([resident("a b", "tenant 1"), resident("a b", "tenant 2")]).toEqual([0, 2]);
  });

  it("hides the cells from new matches at once and is complete when the last reader leaves", async () => {
    const { tree, put, resident, ops } = setup();
    const reader = put("a b c d");
    const second = tree.match("n", path("a b c"));
    const erasure = tree.erase(everywhere, { tokens: tokens("a b"), from: 1 });
    tree.checkIntegrity();
    expect(resident("a b c d")).toBe(1);
    expect(erasure.readers).toBeGreaterThan(0);
    let complete = false;
    void erasure.complete.then(() => (complete = true));
    reader.release();
    await Promise.resolve();
    expect(complete).toBe(false);
    second.release();
    await erasure.complete;
    tree.checkIntegrity();
    expect([...ops.tree.keys()]).toEqual(identities("n", path("a b c d"), 0, 1));
    expect(ops.leases.size).toBe(0);
  });

  it("is complete for a second erasure, too, only when the readers of the first have left", async () => {
    const { tree, put } = setup();
    const reader = put("a b c d");
    const first = tree.erase(everywhere, { tokens: tokens("a b"), from: 1 });
    const second = tree.erase(everywhere, { tokens: tokens("a b c"), from: 2 });
    expect([first.readers, second.readers, second.cells]).toEqual([1, 1, 0]);
    tree.match("n", path("a b c x")).release();
    let done = 0;
    for (const { complete } of [first, second]) void complete.then(() => done++);
    await Promise.resolve();
    expect(done).toBe(0);
    reader.release();
    await Promise.all([first.complete, second.complete]);
    expect(tree.stats().nodes).toBe(1);
  });

  it("refuses cells whose computation began before it, and takes them from who starts anew", () => {
    const { tree, put } = setup();
    const since = tree.epoch;
    tree.erase(everywhere, { tokens: tokens("a b"), from: 1, except: path("a b x") });
    const code = (text: string, from = since) => {
      try {
        put(text, "n", from).release();
      } catch (error) {
        return error instanceof RadixError ? `${error.code} ${error.kind}` : String(error);
      }
      return "taken";
    };
    expect(code("a b c")).toBe("path_erased cancelled");
    expect(code("a x")).toBe("taken");
    expect(code("a b x")).toBe("taken");
    expect(code("a b c", tree.epoch)).toBe("taken");
    for (let i = 0; i < 3; i++) tree.erase(everywhere, { tokens: tokens("q"), from: 0 });
    expect(code("a y")).toBe("path_erased cancelled");
  });

  it("refuses to erase nothing", () => {
    const { tree } = setup();
    expect(() => tree.erase(everywhere, { tokens: tokens("a b"), from: 2 })).toThrow(RadixError);
  });
});
