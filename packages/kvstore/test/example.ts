// A serving stack in 60 lines: a toy model whose cells are 8 bytes, a small device, host memory behind it, and whole blocks shared by address.
import { CellArchive, HostTier, PagePool, PathAddresses, type CellLease } from "@palimpsest/kvstore";

const BLOCK = 4;
const pool = new PagePool({ pages: 12, pageSize: 4 });
const device = new Float64Array(pool.pages * pool.pageSize);
const cellOf = (slot: number) => new Uint8Array(device.buffer, slot * 8, 8);
const port = {
  cellBytes: 8,
  read: async (slots: Int32Array, into: Uint8Array) => slots.forEach((slot, i) => into.set(cellOf(slot), i * 8)),
  write: async (slots: Int32Array, from: Uint8Array) => slots.forEach((slot, i) => cellOf(slot).set(from.subarray(i * 8, i * 8 + 8))),
  clear: async (slots: Int32Array) => slots.forEach((slot) => cellOf(slot).fill(0)),
};
const tiers = [new HostTier({ bytesMax: 1 << 20, blockBytes: BLOCK * port.cellBytes })];
const archive = await CellArchive.open({ port, tiers, blockCells: BLOCK });

/** Blocks on the device by address, least recently used first. */
const cached = new Map<string, { lease: CellLease; addresses: PathAddresses; number: number }>();

/** Copies the oldest blocks to the archive until so many pages are free. */
async function makeRoom(pages: number): Promise<void> {
  for (const [key, { lease, addresses, number }] of cached) {
    if (pool.free >= pages) return;
    cached.delete(key);
    archive.demote([{ addresses, number, cells: [lease] }]);
    await archive.idle();
  }
}

async function answer(text: string): Promise<void> {
  const tokens = Int32Array.from(text, (letter) => letter.charCodeAt(0));
  const addresses = new PathAddresses("toy model 1, alice", BLOCK);
  addresses.extend({ tokens, events: [] });
  await makeRoom(Math.ceil(tokens.length / pool.pageSize));
  const counts = { cached: 0, promoted: 0, computed: 0 };
  const held: CellLease[] = [];
  let cell = 0;
  for (let number = 0; number * BLOCK < tokens.length; number++) {
    const whole = number < addresses.blocks;
    const hit = whole ? cached.get(addresses.key(number)) : undefined;
    const lease = hit?.lease.retain("leased") ?? pool.allocate(1, "leased");
    const length = Math.min(BLOCK, tokens.length - number * BLOCK);
    const found = hit === undefined && whole && archive.find(addresses, number, number + 1)[0];
    const arrived = found && (await archive.promote([{ addresses, number, cells: [lease] }]))[0] === "arrived";
    for (let i = 0; i < length; i++) {
      // The model: a cell is a function of its token and the cell in front of it.
      if (!hit && !arrived) device[lease.slot(i)] = (cell * 31 + tokens[number * BLOCK + i]!) % 65_521;
      cell = device[lease.slot(i)]!;
    }
    counts[hit ? "cached" : arrived ? "promoted" : "computed"] += length;
    if (whole && !hit) cached.set(addresses.key(number), { lease: lease.retain("cached"), addresses, number });
    held.push(lease);
  }
  for (const lease of held) lease.release();
  console.log(text.padEnd(22), JSON.stringify(counts), "answer", cell, JSON.stringify(pool.audit()));
}

for (const text of ["abcdefghij", "abcdefghijkl", "abcdefghXX", "0123456789abcdefghij", "ABCDEFGHIJKLMNOPQRST", "abcdefghijkl"]) await answer(text);
