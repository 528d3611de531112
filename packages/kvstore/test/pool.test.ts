import { describe, expect, it } from "vitest";
import { cellOps, KvstoreError, PagePool, type CellLease, type Holder } from "../src/index.ts";
import { must, Random, same } from "./support.ts";

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

  it("says what a page counts as, and tells when one is held no more", () => {
    let told = 0;
    const pool = new PagePool({ pages: 2, pageSize: 4, onUnheld: () => told++ });
    const lease = pool.allocate(1, "cached");
    const page = lease.page(0);
    const kinds = [pool.holderOf(page)];
    const [one, other] = [lease.retain("held"), lease.retain("held")];
    kinds.push(pool.holderOf(page));
    one.release();
    expect(told).toBe(0);
    lease.release();
    kinds.push(pool.holderOf(page));
    const leased = other.move("leased");
    expect(told).toBe(1);
    kinds.push(pool.holderOf(page));
    leased.release();
    kinds.push(pool.holderOf(page));
    expect(kinds).toEqual(["cached", "held", "held", "leased", null]);
    pool.allocate(2, "held").release();
    expect(told).toBe(3);
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

  it("names free pages that still hold something, for zeroing at once, and then gives them out as clean", () => {
    const pool = new PagePool({ pages: 4, pageSize: 4 });
    const lease = pool.allocate(2, "leased");
    const pages = [...lease.pages].toSorted();
    lease.release();
    expect([...pool.takeDirty()].toSorted()).toEqual(pages);
    expect([...pool.takeDirty()]).toEqual([]);
    pool.checkIntegrity();
    pool.allocate(4, "leased").release();
    expect([...pool.takeStale()]).toEqual([]);
    expect(pool.takeDirty()).toHaveLength(4);
  });

  it("charges accounts by pages and bytes, until nobody holds the page any more", () => {
    const pool = new PagePool({
      pages: 10,
      pageSize: 4,
      pageBytes: 100,
      budgets: { each: 3, accounts: { big: 6 } },
      byteBudgets: { accounts: { small: 150, big: 100_000 } },
    });
    const lease = pool.allocate(3, "leased", "a");
    expect(codeOf(() => pool.allocate(1, "leased", "a"))).toBe("budget_exceeded");
    expect(codeOf(() => pool.allocate(2, "leased", "small"))).toBe("budget_exceeded");
    const [head, tail] = lease.split(6);
    head.release();
    expect(pool.usage("a")).toEqual({ pages: 2, pagesMax: 3 });
    tail.release();
    expect([pool.usage("a").pages, pool.usage("big").pagesMax, pool.usage("small").pagesMax]).toEqual([0, 6, 1]);
    pool.allocate(6, "leased", "big");
    pool.checkIntegrity();
    expect(codeOf(() => new PagePool({ pages: 1, byteBudgets: { each: 5 } }))).toBe("argument_invalid");
    expect(codeOf(() => new PagePool({ pages: 1, budgets: { each: -1 } }))).toBe("argument_invalid");
  });

  it("wants pages back from the low mark until the high mark is reached", () => {
    const pool = new PagePool({ pages: 10, watermarks: { low: 2, high: 5 } });
    const leases = Array.from({ length: 9 }, () => pool.allocate(1, "cached"));
    expect(pool.wanted).toBe(4);
    leases.pop()!.release();
    leases.pop()!.release();
    expect(pool.wanted).toBe(2);
    leases.pop()!.release();
    leases.pop()!.release();
    expect(pool.wanted).toBe(0);
    leases.push(pool.allocate(3, "cached"));
    expect([pool.free, pool.wanted]).toEqual([2, 0]);
    expect(codeOf(() => new PagePool({ pages: 4, watermarks: { low: 2, high: 5 } }))).toBe("argument_invalid");
    expect(codeOf(() => new PagePool({ pages: 4, watermarks: { low: 2, high: 1 } }))).toBe("argument_invalid");
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
  const seeds = process.env["PALIMPSEST_LONG"] === "1" ? 2_000 : 200;

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
  account: string;
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

const ACCOUNTS = ["a", "b"];
const BUDGET = 8;

function naiveUsage(known: readonly Known[], account: string, pageSize: number): number {
  const mine = known.filter((one) => one.account === account);
  return new Set(mine.flatMap((one) => one.slots.map((slot) => Math.floor(slot / pageSize)))).size;
}

function run(seed: number): number {
  const random = new Random(seed);
  const pageSize = random.pick([1, 2, 3, 5, 16]);
  const pages = 1 + random.int(20);
  const pool = new PagePool({ pages, pageSize, budgets: { each: BUDGET } });
  const known: Known[] = [];
  const take = () => known.splice(random.int(known.length), 1)[0]!;
  for (let step = 0; step < 500; step++) {
    const action = random.int(6);
    if (action === 0 || known.length === 0) {
      const count = random.int(pool.free + 1);
      const holder = random.pick(HOLDERS);
      const account = random.pick(ACCOUNTS);
      if (pool.usage(account).pages + count > BUDGET) {
        same(codeOf(() => pool.allocate(count, holder, account)), "budget_exceeded", "beyond the budget");
        continue;
      }
      const lease = pool.allocate(count, holder, account);
      const slots = slotsOf(lease);
      const taken = new Set(known.flatMap((one) => one.slots.map((slot) => Math.floor(slot / pageSize))));
      must(!slots.some((slot) => taken.has(Math.floor(slot / pageSize))), () => "a page with two owners");
      known.push({ lease, slots, holder, account });
    } else if (action === 1) {
      const one = take();
      const at = random.int(one.slots.length + 1);
      const parts = random.int(2) === 0 ? one.lease.split(at) : cellOps.split(one.lease, at);
      parts.forEach((lease, i) => known.push({ ...one, lease, slots: i === 0 ? one.slots.slice(0, at) : one.slots.slice(at) }));
    } else if (action === 2) {
      const one = random.pick(known);
      const from = random.int(one.slots.length + 1);
      const to = from + random.int(one.slots.length - from + 1);
      const holder = random.pick(HOLDERS);
      known.push({ lease: one.lease.slice(from, to, holder), slots: one.slots.slice(from, to), holder, account: one.account });
    } else if (action === 3) {
      const one = take();
      const holder = random.pick(HOLDERS);
      known.push({ lease: one.lease.move(holder), slots: one.slots, holder, account: one.account });
    } else {
      const one = take();
      one.lease.release();
      if (random.int(2) === 0) one.lease.release();
    }
    for (const one of known) same(slotsOf(one.lease), one.slots, "slots");
    pool.checkIntegrity();
    same(pool.audit(), naiveAudit(known, pages, pageSize), "audit");
    same(pool.leases, known.length, "leases");
    for (const account of ACCOUNTS) same(pool.usage(account).pages, naiveUsage(known, account, pageSize), `pages of ${account}`);
  }
  return 500;
}
