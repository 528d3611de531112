import { describe, expect, it } from "vitest";
import { CellArchive, HostTier, KvstoreError, PagePool, PathAddresses, RateMeter, type ArchiveOptions, type Block } from "../src/index.ts";
import { Random } from "./support.ts";
import { CELL_BYTES, FaultyPort, FaultyTier, World } from "./world.ts";

const BLOCK_BYTES = 2 * CELL_BYTES;
const TURN = () => new Promise<void>((resolve) => setImmediate(resolve));

function addresses(log: number, namespace = "n"): PathAddresses {
  const made = new PathAddresses(namespace, 2);
  made.extend({ tokens: Int32Array.from({ length: 8 }, (_, i) => 100 * log + i), events: [] });
  return made;
}

async function setup(options: Partial<ArchiveOptions> = {}, blocksMax = 8) {
  const world = new World(new Random(1));
  const port = new FaultyPort(world, 100);
  const pool = new PagePool({ pages: 50, pageSize: 2 });
  const tier = new FaultyTier(world, "disk", blocksMax * BLOCK_BYTES, true, new Map());
  const archive = await CellArchive.open({ port, tiers: [tier], blockCells: 2, clock: world, ...options });
  const blocks = (log: number, count: number, namespace = "n"): Block[] => {
    const lease = pool.allocate(count, "leased");
    const of = addresses(log, namespace);
    const made = Array.from({ length: count }, (_, number) => ({ addresses: of, number, cells: [lease.slice(2 * number, 2 * number + 2, "leased")] }));
    lease.release();
    return made;
  };
  const settle = async () => {
    for (let i = 0; i < 50; i++) {
      world.answer();
      await TURN();
    }
  };
  return { world, port, pool, tier, archive, blocks, settle };
}

describe("a restart", () => {
  it("finds on the disk what only host memory had, the most recently used first, as much as fits", async () => {
    const { world, port, blocks, settle, pool } = await setup();
    const disk = new Map();
    const tiers = () => [new HostTier({ bytesMax: 100 * BLOCK_BYTES, blockBytes: BLOCK_BYTES }), new FaultyTier(world, "disk", 3 * BLOCK_BYTES, true, disk)];
    const archive = await CellArchive.open({ port, tiers: tiers(), blockCells: 2, clock: world });
    archive.demote(blocks(1, 2));
    await settle();
    archive.demote(blocks(2, 2));
    await settle();
    archive.demote(blocks(1, 1));
    expect(archive.stats().tiers.map((tier) => tier.blocks)).toEqual([4, 0]);
    const persisted = archive.persist(1_000);
    await settle();
    expect(await persisted).toBe(3);
    archive.checkIntegrity();
    const again = await CellArchive.open({ port, tiers: tiers(), blockCells: 2, clock: world });
    expect([again.find(addresses(1)), again.find(addresses(2))]).toEqual([[true, false, false, false], [true, true, false, false]]);
    again.checkIntegrity();
    expect(pool.audit()).toMatchObject({ free: 50 });
  });
});

describe("demotion", () => {
  it("returns at once, and holds the pages until they were copied", async () => {
    const { archive, blocks, pool, settle } = await setup();
    expect(archive.demote(blocks(1, 3))).toBe(3);
    expect(pool.audit()).toMatchObject({ held: 3, leased: 0 });
    expect(archive.find(addresses(1))).toEqual([false, false, false, false]);
    await settle();
    expect(pool.audit()).toMatchObject({ held: 0, free: 50 });
    expect(archive.find(addresses(1))).toEqual([true, true, true, false]);
    expect(archive.stats()).toMatchObject({ demoted: 3, refused: 0, lost: 0, demotingBytes: 0 });
  });

  it("takes no more than may be on its way, and lets the rest go", async () => {
    const { archive, blocks, pool, settle } = await setup({ limits: { demotingBytesMax: 2 * BLOCK_BYTES } });
    expect(archive.demote(blocks(1, 4))).toBe(2);
    expect([archive.stats().refused, pool.audit().held]).toEqual([2, 2]);
    await settle();
    expect(archive.stats()).toMatchObject({ demoted: 2, demotingBytes: 0 });
  });

  it("can be called off for the sake of the pages", async () => {
    const { archive, blocks, pool, settle } = await setup({ limits: { batchBytes: BLOCK_BYTES } });
    archive.demote(blocks(1, 4));
    await TURN();
    // Two batches are on their way.
    expect(archive.cancelDemotion()).toBe(2);
    expect(pool.audit().held).toBe(2);
    await settle();
    expect(archive.stats()).toMatchObject({ demoted: 2, lost: 2 });
  });

  it("whose copy never reports back gives the pages back at the deadline, and ignores what comes later", async () => {
    const { archive, blocks, pool, world, settle } = await setup({ limits: { deadlineMs: 100 } });
    archive.demote(blocks(1, 2));
    await TURN();
    world.pass(100);
    await TURN();
    expect([pool.audit().held, archive.stats().lost, archive.stats().errors]).toEqual([0, 2, 1]);
    await settle();
    expect(archive.find(addresses(1))).toEqual([false, false, false, false]);
    archive.checkIntegrity();
  });

  it("writes nothing that a tier has already", async () => {
    const { archive, blocks, tier, settle } = await setup();
    archive.demote(blocks(1, 2));
    await settle();
    const written = [...tier.disk.values()];
    expect(archive.demote(blocks(1, 2))).toBe(2);
    await settle();
    expect([...tier.disk.values()].every((record, i) => record === written[i])).toBe(true);
  });

  it("keeps accounts within their bytes, and evicts their own first", async () => {
    const { archive, blocks, settle } = await setup({
      budgets: { accounts: { small: 2 * BLOCK_BYTES, none: 0 } },
      accountOf: (namespace) => namespace,
    });
    archive.demote(blocks(1, 2, "big"));
    await settle();
    archive.demote(blocks(2, 2, "small"));
    await settle();
    archive.demote(blocks(3, 2, "small"));
    await settle();
    expect(archive.usage("disk", "small")).toEqual({ bytes: 2 * BLOCK_BYTES, bytesMax: 2 * BLOCK_BYTES });
    expect(archive.find(addresses(1, "big"))).toEqual([true, true, false, false]);
    expect(archive.find(addresses(3, "small"))).toEqual([true, true, false, false]);
    expect(archive.demote(blocks(4, 1, "none"))).toBe(0);
    expect(() => archive.usage("tape", "small")).toThrow(KvstoreError);
  });

  it("refuses a block that is larger than the tier", async () => {
    const { archive, blocks } = await setup({}, 0);
    expect(archive.demote(blocks(1, 1))).toBe(0);
    expect(archive.stats()).toMatchObject({ refused: 1 });
  });
});

/** An archive whose tier has four blocks of log 1. */
async function stored(options: Partial<ArchiveOptions> = {}) {
  const all = await setup(options);
  all.archive.demote(all.blocks(1, 4));
  await all.settle();
  return all;
}

describe("promotion", () => {
  it("that takes longer than the caller would need to compute is late, and its pages stay held until the write has answered", async () => {
    const { archive, blocks, pool, world, settle } = await stored();
    const wanted = blocks(1, 2);
    const promotion = archive.promote(wanted, { deadlineMs: 50 });
    await TURN();
    world.answer();
    await TURN();
    world.pass(50);
    expect(await promotion).toEqual(["late", "late"]);
    for (const { cells } of wanted) for (const lease of cells) lease.release();
    expect(pool.audit()).toMatchObject({ held: 2, leased: 0 });
    await settle();
    expect(pool.audit()).toMatchObject({ held: 0, free: 50 });
    expect(archive.stats()).toMatchObject({ late: 2, promoted: 0 });
  });

  it("ends when the caller gives up", async () => {
    const { archive, blocks, settle } = await stored({ limits: { promotingBytesMax: 2 * BLOCK_BYTES, batchBytes: BLOCK_BYTES } });
    const abort = new AbortController();
    const promotion = archive.promote(blocks(1, 4), { signal: abort.signal });
    abort.abort();
    await settle();
    expect(await promotion).toEqual(["cancelled", "cancelled", "cancelled", "cancelled"]);
    expect(archive.stats().promotingBytes).toBe(0);
    expect(await archive.promote(blocks(1, 1), { signal: abort.signal })).toEqual(["cancelled"]);
  });

  it("never has more bytes on their way than it may", async () => {
    const { archive, blocks, settle } = await stored({ limits: { promotingBytesMax: 2 * BLOCK_BYTES, batchBytes: BLOCK_BYTES } });
    const promotion = archive.promote(blocks(1, 4));
    await TURN();
    expect(archive.stats().promotingBytes).toBe(2 * BLOCK_BYTES);
    await settle();
    expect(await promotion).toEqual(["arrived", "arrived", "arrived", "arrived"]);
  });

  it("serves nothing that is not what was stored", async () => {
    const { archive, blocks, settle, tier } = await stored();
    tier.disk.get(addresses(1).key(1))!.bytes![3]! ^= 1;
    const promotion = archive.promote(blocks(1, 3));
    await settle();
    expect(await promotion).toEqual(["arrived", "damaged", "arrived"]);
    expect(archive.find(addresses(1))).toEqual([true, false, true, true]);
    expect(tier.disk.get(addresses(1).key(1))!.bytes).toBeNull();
    archive.checkIntegrity();
  });

  it("of a block that is erased meanwhile brings nothing, and leaves nothing on the device", async () => {
    const { archive, blocks, settle, port, world } = await stored();
    const wanted = blocks(1, 2);
    const promotion = archive.promote(wanted);
    await TURN();
    world.answer();
    await TURN();
    const erasure = archive.erase(() => true, { tokens: Int32Array.of(100), from: 0 });
    expect(archive.find(wanted[0]!.addresses)).toEqual([false, false, false, false]);
    await settle();
    expect(await promotion).toEqual(["missing", "missing"]);
    expect((await erasure).cells).toEqual({ disk: 8 });
    for (const { cells } of wanted) expect([...port.cell(cells[0]!.slot(0))]).toEqual(Array.from({ length: CELL_BYTES }).fill(0));
  });

  it("is weighed against computing, by the rates that were measured", async () => {
    const { archive, blocks, world } = await stored();
    const computing = new RateMeter();
    // Nothing was measured: what was never tried is tried, and nothing is promised to be quicker than computing at once.
    expect(archive.estimateMs(addresses(1), [0, 1])).toBe(0);
    expect(archive.worthPromoting(addresses(1), [0, 1], (cells) => computing.msFor(cells))).toBe(false);
    computing.observe(100, 1_000);
    expect(archive.worthPromoting(addresses(1), [0, 1], (cells) => computing.msFor(cells))).toBe(true);
    const promotion = archive.promote(blocks(1, 1));
    await TURN();
    world.pass(500);
    for (let i = 0; i < 5; i++) {
      world.answer();
      await TURN();
    }
    await promotion;
    expect(archive.estimateMs(addresses(1), [0, 1])).toBeCloseTo(1_000);
    expect(archive.worthPromoting(addresses(1), [0, 1], (cells) => computing.msFor(cells))).toBe(false);
    expect(archive.stats().tiers[0]!.readBytesPerSecond).toBeCloseTo(2 * BLOCK_BYTES / 1);
    expect(archive.estimateMs(addresses(9), [0])).toBe(0);
  });
});

describe("an archive", () => {
  it("refuses options that are none, and calls after its end", async () => {
    const { port, archive, blocks } = await setup();
    for (const options of [{ blockCells: 0 }, { limits: { batchBytes: 0 } }]) {
      await expect(CellArchive.open({ port, tiers: [], ...options })).rejects.toMatchObject({ code: "argument_invalid" });
    }
    await archive.close();
    await archive.close();
    expect(() => archive.demote(blocks(1, 1))).toThrow("closed");
    await expect(archive.erase(() => true, { tokens: Int32Array.of(1), from: 0 })).rejects.toMatchObject({ code: "archive_closed", kind: "cancelled" });
  });

  it("names what a tier could not be made to forget, and refuses it when the tier is opened again", async () => {
    const { archive, blocks, settle, world, tier, port } = await setup();
    archive.demote(blocks(1, 2));
    await settle();
    world.faults = 1_000;
    const erasure = archive.erase(() => true, { tokens: Int32Array.of(100), from: 0 });
    await settle();
    const receipt = await erasure;
    world.faults = 0;
    expect(receipt.unreachable).toEqual([{ tier: "disk", keys: [0, 1].map((number) => addresses(1).key(number)) }]);
    expect(tier.disk.size).toBe(2);
    const opening = CellArchive.open({ port, tiers: [tier], blockCells: 2, clock: world, refused: receipt.unreachable });
    await settle();
    const again = await opening;
    expect(again.find(addresses(1))).toEqual([false, false, false, false]);
    expect(tier.disk.size).toBe(0);
    expect(again.unreachable()).toEqual([]);
  });

  it("overwrites cells of the device that it is told to wipe", async () => {
    const { archive, pool, port, settle } = await setup();
    const lease = pool.allocate(2, "leased");
    for (let i = 0; i < 4; i++) port.cell(lease.slot(i)).fill(7);
    const [secret, kept] = lease.split(3);
    const wiping = archive.wipe([secret]);
    await settle();
    expect(await wiping).toBe(3);
    expect([pool.free, [...port.cell(kept.slot(0))][0], port.bytes.filter((byte) => byte === 7).length]).toEqual([49, 7, CELL_BYTES]);
  });

  it("takes only blocks of one length into host memory, and zeroes what it removes", async () => {
    const host = new HostTier({ bytesMax: 100, blockBytes: 4 });
    const meta = new Uint8Array(0);
    await expect(host.put([{ key: "a", meta, bytes: new Uint8Array(3) }])).rejects.toMatchObject({ code: "argument_invalid" });
    await host.put([{ key: "a", meta, bytes: Uint8Array.of(1, 2, 3, 4) }]);
    expect(await host.get(["a", "b"])).toEqual([Uint8Array.of(1, 2, 3, 4), null]);
    await host.remove(["a", "b"], true);
    expect(await host.get(["a"])).toEqual([null]);
    expect(() => new HostTier({ bytesMax: 1, blockBytes: 0 })).toThrow(KvstoreError);
  });
});
