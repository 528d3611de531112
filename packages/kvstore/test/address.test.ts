import { describe, expect, it } from "vitest";
import { AddressedCells, addressedOps, ADDRESS_VERSION, blocksOf, PagePool, PathAddresses, type LogPath } from "../src/index.ts";

const path = (tokens: number[], events: { at: number; key: string }[] = []): LogPath => ({ tokens: Int32Array.from(tokens), events });

function keysOf(log: LogPath, namespace = "n", blockCells = 2): string[] {
  const addresses = new PathAddresses(namespace, blockCells);
  addresses.extend(log);
  return Array.from({ length: addresses.blocks }, (_, number) => addresses.key(number));
}

describe("the address of a block", () => {
  it("is the same in every process, and changes only with the version", () => {
    const log = path([1, 2, 3, -1, 0x7fffffff, 6, 7], [{ at: 2, key: "hide 0-1" }, { at: 5, key: "é 漢 🎉" }]);
    expect([ADDRESS_VERSION, ...keysOf(log, '[1,"model"]')]).toMatchInlineSnapshot(`
      [
        1,
        "d95e6e91b5ab75e13008f84e11ebc655",
        "6e45af3db54097c35e3c008f8b98d3e0",
        "dc8f99f5cc5022af65e31a5969455129",
      ]
    `);
    expect(keysOf(log, "n", 4)).toMatchInlineSnapshot(`
      [
        "2ec3cc414cde31f7864572827ea9dddf",
      ]
    `);
  });

  it("depends on everything that led to the block, and on nothing else", () => {
    const base = keysOf(path([1, 2, 3, 4, 5, 6]));
    expect(keysOf(path([1, 2, 3, 4, 5, 6, 7]))).toEqual(base);
    expect(keysOf(path([1, 2, 3, 4, 5, 9]))).toEqual([base[0], base[1], expect.not.stringMatching(base[2]!)]);
    for (const [log, shared] of [
      [path([9, 2, 3, 4, 5, 6]), 0],
      [path([1, 2, 3, 4, 5, 6], [{ at: 0, key: "e" }]), 0],
      [path([1, 2, 3, 4, 5, 6], [{ at: 2, key: "e" }]), 1],
      [path([1, 2, 3, 4, 5, 6], [{ at: 3, key: "e" }]), 1],
      [path([1, 2, 3, 4, 5, 6], [{ at: 6, key: "e" }]), 3],
    ] as const) {
      const keys = keysOf(log);
      expect(keys.findIndex((key, i) => key !== base[i])).toBe(shared === 3 ? -1 : shared);
      expect(new Set([...keys, ...base]).size).toBe(6 - shared);
    }
    expect(new Set([...keysOf(path([1, 2])), ...keysOf(path([1, 2]), "m"), ...keysOf(path([1, 2]), "n", 1)]).size).toBe(4);
  });

  it("does not mistake one event for two, nor a key for its place", () => {
    const one = keysOf(path([1, 2], [{ at: 0, key: "ab" }]));
    const two = keysOf(path([1, 2], [{ at: 0, key: "a" }, { at: 1, key: "b" }]));
    const moved = keysOf(path([1, 2], [{ at: 1, key: "ab" }]));
    expect(new Set([...one, ...two, ...moved]).size).toBe(3);
  });

  it("is the same in a fork, which shares what was in front of it and goes its own way", () => {
    const tokens = Array.from({ length: 61 }, (_, i) => i * 37);
    const events = [0, 5, 16, 44].map((at) => ({ at, key: `e${at}` }));
    // A fork of a fork of a fork, each from the middle of the one before, which goes on itself.
    let addresses = new PathAddresses("n", 4);
    let log = path(tokens, events);
    addresses.extend(log);
    for (const [blocks, value] of [[11, 7], [4, 8], [9, 9], [0, 1], [15, 2]] as const) {
      const forked = addresses.fork(Math.min(blocks, addresses.blocks));
      const kept = 4 * forked.blocks;
      addresses.extend(path([...log.tokens, 1, 2, 3, 4, 5, 6, 7, 8], [...log.events]));
      const other = path([...log.tokens.subarray(0, kept), ...Array.from({ length: 30 }, (_, i) => i * value)], log.events.filter(({ at }) => at < kept));
      other.events = [...other.events, { at: kept + 1, key: `of ${value}` }];
      forked.extend(other);
      expect(Array.from({ length: forked.blocks }, (_, number) => forked.key(number))).toEqual(keysOf(other, "n", 4));
      for (let number = 0; number < forked.blocks; number++) {
        expect([...forked.at(number).tokens]).toEqual([...other.tokens.subarray(4 * number, 4 * number + 4)]);
      }
      [addresses, log] = [forked, other];
    }
    expect(() => addresses.fork(addresses.blocks + 1)).toThrow(/block/);
  });

  it("is the same whether a path comes at once or piece by piece", () => {
    const tokens = Array.from({ length: 101 }, (_, i) => i * 37);
    const events = [0, 5, 6, 7, 16, 99].map((at) => ({ at, key: `e${at}` }));
    const whole = keysOf(path(tokens, events), "n", 4);
    const pieces = new PathAddresses("n", 4);
    for (let length = 0; length <= tokens.length; length += 7) {
      pieces.extend(path(tokens.slice(0, length), events.filter(({ at }) => at <= length)));
      pieces.extend(path(tokens, events), length);
    }
    expect(Array.from({ length: pieces.blocks }, (_, number) => pieces.key(number))).toEqual(whole.slice(0, 24));
    expect(pieces.at(1)).toEqual({ key: whole[1], namespace: "n", number: 1, tokens: Int32Array.from(tokens.slice(4, 8)), events: [1, 2, 3].map((at) => ({ at, key: `e${at + 4}` })) });
    expect(() => pieces.key(24)).toThrow("block 24 of 24");
    expect(() => new PathAddresses("n", 0)).toThrow("at least one cell");
  });
});

describe("what is evicted from a tree", () => {
  const pool = new PagePool({ pages: 100, pageSize: 3 });
  const ops = addressedOps();
  const addresses = new PathAddresses("n", 4);
  addresses.extend(path(Array.from({ length: 22 }, (_, i) => i)));
  const value = (start: number, length: number) => new AddressedCells(pool.allocateCells(length, "cached").slice(0, length, "cached"), addresses, start);

  it("becomes whole blocks, with cells in front of it where the first block needs them", () => {
    const [head, tail] = ops.split(value(0, 22), 6);
    const evicted = { start: 6, length: 16, value: tail, before: (cells: number) => (cells <= 6 ? [{ start: 0, length: 6, value: head }] : []) };
    const blocks = blocksOf(evicted);
    expect(blocks.map(({ number, cells }) => [number, cells.map((lease) => lease.length)])).toEqual([[1, [2, 2]], [2, [4]], [3, [4]], [4, [4]]]);
    expect(blocks[0]!.cells[0]!.slot(0)).toBe(head.lease.slot(4));
    expect(blocks[0]!.cells[1]!.slot(0)).toBe(tail.lease.slot(0));
    for (const { cells } of blocks) for (const lease of cells) lease.release();
    ops.release(head);
    ops.release(tail);
  });

  it("leaves out blocks of which a part is gone or has no end", () => {
    const piece = value(6, 5);
    const hole = { start: 6, length: 5, value: piece, before: () => [{ start: 0, length: 6, value: null }] };
    expect(blocksOf(hole)).toEqual([]);
    expect(() => blocksOf({ ...hole, start: 5 })).toThrow("for the cells");
    ops.erase(piece);
  });
});
