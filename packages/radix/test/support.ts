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

/** A value that names each of its cells, so that a test sees which cells it stands for. Counts its handles. */
export interface Handle {
  cells: readonly string[];
  open: boolean;
}

export class Handles implements ValueOps<Handle> {
  open = 0;
  /** Handles by cell. */
  readonly held = new Map<string, number>();

  make(cells: readonly string[]): Handle {
    this.open++;
    for (const cell of cells) this.held.set(cell, (this.held.get(cell) ?? 0) + 1);
    return { cells, open: true };
  }

  split(value: Handle, at: number): [Handle, Handle] {
    if (at <= 0 || at >= value.cells.length) throw new Error(`split of ${value.cells.length} cells at ${at}`);
    const parts: [Handle, Handle] = [this.make(value.cells.slice(0, at)), this.make(value.cells.slice(at))];
    this.release(value);
    return parts;
  }

  retain(value: Handle): Handle {
    if (!value.open) throw new Error("a handle was used after it was given back");
    return this.make(value.cells);
  }

  release(value: Handle): void {
    if (!value.open) throw new Error("a handle was given back twice");
    value.open = false;
    this.open--;
    for (const cell of value.cells) {
      const count = this.held.get(cell)! - 1;
      if (count === 0) this.held.delete(cell);
      else this.held.set(cell, count);
    }
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
