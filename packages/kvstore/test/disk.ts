import { join } from "node:path";
import { CellArchive, HostTier, KeyFile, LmdbTier, PagePool, PathAddresses, SealedTier, type Block } from "../src/index.ts";
import { ArrayPort, fillCell, isCell, logOf } from "./support.ts";

export const CELL_BYTES = 512;
export const BLOCK_CELLS = 4;
export const BLOCK_BYTES = CELL_BYTES * BLOCK_CELLS;
/** Cells of a log, of which the first block is the same in all. */
export const LOG_CELLS = 16;
export const STORE_KEY = Uint8Array.from({ length: 32 }, (_, i) => i * 7);

/** An archive on a real disk, with the device in an array. */
export class DiskStore {
  readonly archive: CellArchive;
  readonly port: ArrayPort;
  readonly pool: PagePool;
  readonly keys: KeyFile;
  readonly errors: unknown[];

  private constructor(archive: CellArchive, port: ArrayPort, pool: PagePool, keys: KeyFile, errors: unknown[]) {
    this.archive = archive;
    this.port = port;
    this.pool = pool;
    this.keys = keys;
    this.errors = errors;
  }

  static async open(path: string, options: { bytesMax?: number; hostBytes?: number } = {}): Promise<DiskStore> {
    const pool = new PagePool({ pages: 64, pageSize: 16 });
    const port = new ArrayPort(64 * 16, CELL_BYTES);
    const errors: unknown[] = [];
    const inner = await LmdbTier.open({ path: join(path, "cells"), bytesMax: options.bytesMax ?? 2 ** 30 });
    const keys = await KeyFile.open(join(path, "keys"), STORE_KEY);
    const host = options.hostBytes === undefined ? [] : [new HostTier({ bytesMax: options.hostBytes, blockBytes: BLOCK_BYTES })];
    const tiers = [...host, new SealedTier(inner, keys)];
    const archive = await CellArchive.open({ port, tiers, blockCells: BLOCK_CELLS, onError: (error) => errors.push(error) });
    return new DiskStore(archive, port, pool, keys, errors);
  }

  addresses(log: number): PathAddresses {
    const addresses = new PathAddresses("model", BLOCK_CELLS);
    addresses.extend(logOf(log, LOG_CELLS, BLOCK_CELLS));
    return addresses;
  }

  /** Computes a log and lets it leave the device; the pages are free again when this resolves. */
  async store(log: number): Promise<void> {
    const lease = this.pool.allocateCells(LOG_CELLS, "leased");
    for (let cell = 0; cell < LOG_CELLS; cell++) fillCell(this.port.cell(lease.slot(cell)), cell < BLOCK_CELLS ? -1 : log, cell);
    const addresses = this.addresses(log);
    this.archive.demote(
      Array.from({ length: addresses.blocks }, (_, number): Block => {
        return { addresses, number, cells: [lease.slice(number * BLOCK_CELLS, (number + 1) * BLOCK_CELLS, "leased")] };
      }),
    );
    lease.release();
    await this.archive.idle();
  }

  /** Brings a log back. For each block: what became of it, and whether it is right where it arrived. */
  async check(log: number): Promise<string[]> {
    const lease = this.pool.allocateCells(LOG_CELLS, "leased");
    const addresses = this.addresses(log);
    const blocks = Array.from({ length: addresses.blocks }, (_, number): Block => {
      return { addresses, number, cells: [lease.slice(number * BLOCK_CELLS, (number + 1) * BLOCK_CELLS, "leased")] };
    });
    const results = await this.archive.promote(blocks);
    const checked = results.map((result, number) => {
      if (result !== "arrived") return result;
      const cells = Array.from({ length: BLOCK_CELLS }, (_, i) => number * BLOCK_CELLS + i);
      const right = cells.every((cell) => isCell(this.port.cell(lease.slot(cell)), cell < BLOCK_CELLS ? -1 : log, cell));
      return right ? "right" : "WRONG";
    });
    for (const block of blocks) for (const one of block.cells) one.release();
    lease.release();
    return checked;
  }
}
