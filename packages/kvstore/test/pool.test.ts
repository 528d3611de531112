import { describe, expect, it } from "vitest";
import { cellOps, KvstoreError, PagePool, type CellLease, type Holder } from "../src/index.ts";
import { Random } from "./support.ts";

const codeOf = (act: () => unknown) => {
  try {
    act();
  } catch (error) {
    return error instanceof KvstoreError ? error.code : String(error);
  }
  return "no error";
};

describe("a pool of pages", () => {
  it("allocates all or nothing and frees by release alone, as often as that is called", () => {
    const pool = new PagePool({ pages: 4, pageSize: 16 });
    const lease = pool.allocate(3, "leased");
    expect(pool.audit()).toEqual({ total: 4, free: 1, cached: 0, leased: 3, held: 0 });
    expect(codeOf(() => pool.allocate(2, "leased"))).toBe("pages_exhausted");
    expect(pool.free).toBe(1);
    lease.release();
    lease.release();
    expect(pool.audit()).toEqual({ total: 4, free: 4, cached: 0, leased: 0, held: 0 });
    expect(codeOf(() => lease.retain("leased"))).toBe("lease_released");
    pool.checkIntegrity();
  });

  it("frees a page that two segments share once, when the second goes", () => {
    const pool = new PagePool({ pages: 2, pageSize: 16 });
    const [head, tail] = pool.allocate(2, "leased").split(23);
    expect([head.pageCount, tail.pageCount, tail.offset, tail.length]).toEqual([2, 1, 7, 9]);
    head.release();
    expect(pool.audit()).toMatchObject({ free: 1, leased: 1 });
    head.release();
    tail.release();
    expect(pool.free).toBe(2);
    pool.checkIntegrity();
  });

  it("counts a page by the first of held, leased, cached", () => {
    const pool = new PagePool({ pages: 1, pageSize: 4 });
    const leased = pool.allocate(1, "leased");
    const cached = leased.slice(0, 2, "cached");
    const held = cached.retain("held");
    expect(pool.audit()).toMatchObject({ held: 1, leased: 0, cached: 0 });
    held.release();
    expect(pool.audit()).toMatchObject({ leased: 1, cached: 0 });
    leased.release();
    expect(pool.audit()).toMatchObject({ cached: 1, free: 0 });
    cached.release();
    expect(pool.audit()).toMatchObject({ free: 1 });
  });

  it("knows where each cell lies, for any page size", () => {
    for (const pageSize of [1, 5, 16]) {
      const pool = new PagePool({ pages: 50, pageSize });
      pool.allocate(3, "leased");
      const lease = pool.allocateCells(23, "leased");
      const part = lease.slice(7, 20, "leased");
      const pages = [...lease.pages];
      for (let i = 0; i < part.length; i++) {
        expect(part.slot(i)).toBe(pages[Math.floor((i + 7) / pageSize)]! * pageSize + ((i + 7) % pageSize));
        expect(lease.slot(i + 7)).toBe(part.slot(i));
      }
      expect([...part.pages]).toEqual(pages.slice(Math.floor(7 / pageSize), Math.ceil(20 / pageSize)));
      expect(part.page(0)).toBe(part.pages[0]);
      expect(codeOf(() => part.slot(13))).toBe("argument_invalid");
      expect(codeOf(() => part.slice(3, 14, "leased"))).toBe("argument_invalid");
    }
  });

  it("names used pages once for zeroing when they are taken again", () => {
    const pool = new PagePool({ pages: 3, pageSize: 4 });
    const first = pool.allocate(2, "leased");
    expect([...pool.takeStale()]).toEqual([]);
    const pages = [...first.pages].toSorted();
    first.release();
    const second = pool.allocate(3, "leased");
    expect([...pool.takeStale()].toSorted()).toEqual(pages);
    expect([...pool.takeStale()]).toEqual([]);
    second.release();
  });

  it("joins leases that meet between two pages, and only those", () => {
    const pool = new PagePool({ pages: 4, pageSize: 4 });
    const joined = pool.allocate(1, "leased").join(pool.allocate(2, "leased"));
    expect([joined.length, joined.pageCount, joined.writer]).toEqual([12, 3, true]);
    const [head, tail] = joined.split(6);
    expect(codeOf(() => head.join(tail))).toBe("argument_invalid");
    head.release();
    tail.release();
    expect(pool.free).toBe(4);
  });

  it("gives one lease the right to write a cell, and readers none", () => {
    const pool = new PagePool({ pages: 1, pageSize: 4 });
    const lease = pool.allocate(1, "leased");
    expect([lease.writer, lease.retain("leased").writer, lease.slice(1, 2, "cached").writer]).toEqual([true, false, false]);
    const [head, tail] = lease.split(1);
    expect([head.writer, tail.writer, lease.released]).toEqual([true, true, true]);
  });

  it("refuses sizes that are none", () => {
    for (const options of [{ pages: 0 }, { pages: 1.5 }, { pages: 2, pageSize: 0 }]) {
      expect(codeOf(() => new PagePool(options))).toBe("argument_invalid");
    }
    expect(codeOf(() => new PagePool({ pages: 2 }).allocate(-1, "leased"))).toBe("argument_invalid");
  });
});

describe("a pool under random work", () => {
  const seeds = process.env["PALIMPSEST_LONG"] === "1" ? 2_000 : 40;

  it(`equals a list of holders for each cell over ${seeds} seeds of 500 operations`, () => {
    let steps = 0;
    for (let seed = 1; seed <= seeds; seed++) {
      try {
        steps += run(seed);
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
    expect(steps).toBe(seeds * 500);
  });
});

const slotsOf = (lease: CellLease) => Array.from({ length: lease.length }, (_, i) => lease.slot(i) as number);

/** What the lease says of itself, kept apart from it. */
interface Known {
  lease: CellLease;
  slots: number[];
  holder: Holder;
}

const HOLDERS: readonly Holder[] = ["held", "leased", "cached"];

function naiveAudit(known: readonly Known[], pages: number, pageSize: number) {
  const audit = { total: pages, free: 0, cached: 0, leased: 0, held: 0 };
  for (let page = 0; page < pages; page++) {
    const holders = new Set(known.filter((one) => one.slots.some((slot) => Math.floor(slot / pageSize) === page)).map((one) => one.holder));
    audit[HOLDERS.find((holder) => holders.has(holder)) ?? "free"]++;
  }
  return audit;
}

function run(seed: number): number {
  const random = new Random(seed);
  const pageSize = random.pick([1, 2, 3, 5, 16]);
  const pages = 1 + random.int(20);
  const pool = new PagePool({ pages, pageSize });
  const known: Known[] = [];
  const take = () => known.splice(random.int(known.length), 1)[0]!;
  for (let step = 0; step < 500; step++) {
    const action = random.int(6);
    if (action === 0 || known.length === 0) {
      const count = random.int(pool.free + 1);
      const holder = random.pick(HOLDERS);
      const lease = pool.allocate(count, holder);
      const slots = slotsOf(lease);
      const taken = new Set(known.flatMap((one) => one.slots.map((slot) => Math.floor(slot / pageSize))));
      for (const slot of slots) expect(taken.has(Math.floor(slot / pageSize))).toBe(false);
      known.push({ lease, slots, holder });
    } else if (action === 1) {
      const one = take();
      const at = random.int(one.slots.length + 1);
      const parts = random.int(2) === 0 ? one.lease.split(at) : cellOps.split(one.lease, at);
      parts.forEach((lease, i) => known.push({ lease, slots: i === 0 ? one.slots.slice(0, at) : one.slots.slice(at), holder: one.holder }));
    } else if (action === 2) {
      const one = random.pick(known);
      const from = random.int(one.slots.length + 1);
      const to = from + random.int(one.slots.length - from + 1);
      const holder = random.pick(HOLDERS);
      known.push({ lease: one.lease.slice(from, to, holder), slots: one.slots.slice(from, to), holder });
    } else if (action === 3) {
      const one = take();
      const holder = random.pick(HOLDERS);
      known.push({ lease: one.lease.move(holder), slots: one.slots, holder });
    } else {
      const one = take();
      one.lease.release();
      if (random.int(2) === 0) one.lease.release();
    }
    for (const one of known) expect(slotsOf(one.lease)).toEqual(one.slots);
    pool.checkIntegrity();
    expect(pool.audit()).toEqual(naiveAudit(known, pages, pageSize));
    expect(pool.leases).toBe(known.length);
  }
  return 500;
}
