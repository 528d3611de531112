import type { CellLease } from "@palimpsest/kvstore";

/** Cells of a path that lie one after another in a list of pages: cell `cell + i` is at place `first + i` of the list. */
export interface Extent {
  cell: number;
  length: number;
  pages: Int32Array;
  first: number;
}

/**
 * Where the cells of one sequence lie: extents, ascending and disjoint. What is in none of them is missing. A path has as many extents
 * as it has nodes in the tree and pages of its own, so nothing here depends on its number of tokens.
 */
export class CellTable {
  readonly pageSize: number;
  readonly extents: Extent[] = [];

  constructor(pageSize: number) {
    this.pageSize = pageSize;
  }

  /** The cells [cell, cell + lease.length) lie where the lease says. */
  addLease(cell: number, lease: CellLease): void {
    this.add({ cell, length: lease.length, pages: lease.pages, first: lease.offset });
  }

  /** Adds cells that are in no extent yet. An extent that goes on where one ends is joined to it. */
  add(extent: Extent): void {
    const at = this.#indexAfter(extent.cell);
    const before = this.extents[at - 1];
    const joins = before?.pages === extent.pages && before.cell + before.length === extent.cell && before.first + before.length === extent.first;
    if (joins) before.length += extent.length;
    else this.extents.splice(at, 0, extent);
  }

  /** Puts the cells [cell, cell + lease.length) where the lease says, wherever they were before. */
  move(cell: number, lease: CellLease): void {
    this.remove(cell, cell + lease.length);
    this.addLease(cell, lease);
  }

  /** Forgets where the cells [start, end) lie. */
  remove(start: number, end: number): void {
    const from = Math.max(0, this.#indexAfter(start) - 1);
    let to = from;
    const kept: Extent[] = [];
    for (; to < this.extents.length && this.extents[to]!.cell < end; to++) {
      const { cell, length, pages, first } = this.extents[to]!;
      if (cell < start) kept.push({ cell, length: Math.min(length, start - cell), pages, first });
      if (cell + length > end) kept.push({ cell: end, length: cell + length - end, pages, first: first + end - cell });
    }
    this.extents.splice(from, to - from, ...kept);
  }

  clear(): void {
    this.extents.length = 0;
  }

  /** Slot of one cell, −1 where it is missing. */
  slot(cell: number): number {
    const extent = this.extents[this.#indexAfter(cell) - 1];
    if (extent === undefined || cell >= extent.cell + extent.length) return -1;
    const at = extent.first + cell - extent.cell;
    return extent.pages[Math.floor(at / this.pageSize)]! * this.pageSize + (at % this.pageSize);
  }

  /** Index of the first extent that may have cells of [cell, …). */
  indexOf(cell: number): number {
    const at = this.#indexAfter(cell) - 1;
    const extent = this.extents[at];
    return extent !== undefined && extent.cell + extent.length > cell ? at : at + 1;
  }

  /** Index of the first extent that begins behind `cell`. */
  #indexAfter(cell: number): number {
    let low = 0;
    let high = this.extents.length;
    // Cells are mostly added at the end.
    if (high > 0 && this.extents[high - 1]!.cell <= cell) return high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.extents[middle]!.cell <= cell) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
