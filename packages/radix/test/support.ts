import type { Path, PathEvent, ValueOps } from "../src/index.ts";

/** A small generator with a seed, so that a failure can be run again: mulberry32. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** 0 … below − 1. */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(items.length)]!;
  }
}

/** A value that names each of its cells, so that a test sees which cells it stands for. */
export interface Handle {
  cells: readonly string[];
  owner: "tree" | "lease";
  open: boolean;
}

/** Counts handles, and for each owner how many handles a cell has. */
export class Handles implements ValueOps<Handle> {
  open = 0;
  readonly tree = new Map<string, number>();
  readonly leases = new Map<string, number>();
  erased = 0;

  make(cells: readonly string[], owner: Handle["owner"] = "tree"): Handle {
    this.open++;
    const counts = owner === "tree" ? this.tree : this.leases;
    for (const cell of cells) counts.set(cell, (counts.get(cell) ?? 0) + 1);
    return { cells, owner, open: true };
  }

  split(value: Handle, at: number): [Handle, Handle] {
    if (at <= 0 || at >= value.cells.length) throw new Error(`split of ${value.cells.length} cells at ${at}`);
    const parts: [Handle, Handle] = [this.make(value.cells.slice(0, at), value.owner), this.make(value.cells.slice(at), value.owner)];
    this.release(value);
    return parts;
  }

  retain(value: Handle): Handle {
    if (!value.open) throw new Error("a handle was used after it was given back");
    return this.make(value.cells, "lease");
  }

  release(value: Handle): void {
    if (!value.open) throw new Error("a handle was given back twice");
    value.open = false;
    this.open--;
    const counts = value.owner === "tree" ? this.tree : this.leases;
    for (const cell of value.cells) {
      const count = counts.get(cell)! - 1;
      if (count === 0) counts.delete(cell);
      else counts.set(cell, count);
    }
  }

  erase(value: Handle): void {
    this.erased += value.cells.length;
    this.release(value);
  }

  /** Handles of a cell, of tree and leases. */
  holders(cell: string): number {
    return (this.tree.get(cell) ?? 0) + (this.leases.get(cell) ?? 0);
  }
}

/** "the [drop 0-2] cat": words become tokens by their place in a dictionary, brackets become events. */
export function path(text: string, dictionary: Map<string, number> = shared): Path {
  const tokens: number[] = [];
  const events: PathEvent[] = [];
  for (const part of text.match(/\[[^\]]*\]|\S+/g) ?? []) {
    if (part.startsWith("[")) events.push({ at: tokens.length, key: part.slice(1, -1) });
    else {
      if (!dictionary.has(part)) dictionary.set(part, dictionary.size);
      tokens.push(dictionary.get(part)!);
    }
  }
  return { tokens: Int32Array.from(tokens), events };
}

const shared = new Map<string, number>();

/** Events "…/n" own n cells. */
export function ownedCells(key: string): number {
  return Number(/\/(\d+)$/.exec(key)?.[1] ?? 0);
}

/** The path of cell `cell` spelled out: equal exactly for equal cells of a history-aware tree. */
export function identity(namespace: string, of: Path, cell: number): string {
  const parts: string[] = [namespace];
  let next = 0;
  for (let i = 0; i <= cell; i++) {
    if (of.events[next]?.at === i) parts.push(`[${of.events[next++]!.key}]`);
    parts.push(String(of.tokens[i]));
  }
  return parts.join(" ");
}

export function identities(namespace: string, of: Path, from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, i) => identity(namespace, of, from + i));
}
