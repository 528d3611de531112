import { RANK, RadixError, RadixTree, type EvictionPolicy, type MatchLease, type Path, type Pin } from "../src/index.ts";
import { Handles, identities, identity, ownedCells, type Handle, type Random } from "./support.ts";

const NAMESPACES = ["n", "m"];
const ACCOUNT_CELLS = 12;

function must(condition: boolean, message: () => string): void {
  if (!condition) throw new Error(message());
}

function same(one: unknown, other: unknown, what: string): void {
  const [a, b] = [JSON.stringify(one), JSON.stringify(other)];
  if (a !== b) throw new Error(`${what}: ${a} is not ${b}`);
}

interface HeldLease {
  lease: MatchLease<Handle>;
  namespace: string;
  path: Path;
  /** Cells that it reads, by number. */
  reads: Set<number>;
}

interface HeldPin {
  pin: Pin;
  cells: string[];
  /** The path up to its end. */
  namespace: string;
  path: Path;
  until: number;
  account: string;
}

interface Fence {
  epoch: number;
  namespaces: string[];
  tokens: number[];
  from: number;
  except: { namespace: string; path: Path } | null;
}

/** What is known of a cell, kept apart from the tree. */
interface Cell {
  namespace: string;
  path: Path;
  use: number;
  rank: number;
}

/**
 * A tree under random work beside a model that keeps every cell in a map under the spelled-out path that leads to it. Tokens and events
 * are few, so that paths meet again and again.
 */
export class Simulation {
  readonly ops = new Handles();
  readonly tree: RadixTree<Handle>;
  readonly #random: Random;
  readonly #leases: HeldLease[] = [];
  readonly #pins: HeldPin[] = [];
  readonly #fences: Fence[] = [];
  readonly #paths: Path[] = [];
  /** Cells that have a value. */
  readonly #resident = new Map<string, Cell>();
  /** Use and rank of cells that the tree knows or knew. */
  readonly #known = new Map<string, Cell>();
  readonly #lru: boolean;
  #now = 0;
  #tick = 0;

  constructor(random: Random, policy?: EvictionPolicy) {
    this.#random = random;
    this.#lru = policy === undefined;
    this.tree = new RadixTree<Handle>(this.ops, {
      limits: { pinnedCellsMax: ACCOUNT_CELLS, erasuresMax: 3, ...(random.int(2) === 0 ? { nodesMax: 300 } : {}) },
      evictionCells: random.pick([1, 3, 1000]),
      clock: () => this.#now,
      ownedCells,
      ...(random.int(3) === 0 ? { content: { windowCells: 2, cellsMin: 3 } } : {}),
      ...(policy === undefined ? {} : { policy }),
    });
  }

  step(): void {
    const action = this.#random.int(20);
    if (action < 5) this.#match();
    else if (action < 10) this.#insert();
    else if (action < 14) this.#release();
    else if (action < 16) this.#evict();
    else if (action < 17) this.#skip();
    else if (action < 18) this.#pin();
    else if (action < 19) this.#rank();
    else if (this.#random.int(2) === 0) this.#erase();
    else this.#now += this.#random.int(3);
    this.tree.checkIntegrity();
    same(this.tree.stats().cells, this.#resident.size, "cells with a value");
    same(this.ops.tree.size, this.#resident.size, "cells of the tree's handles");
    same(this.tree.stats().leases, this.#leases.length, "leases");
  }

  /** Gives everything back: nothing may be left. */
  finish(): void {
    while (this.#leases.length > 0) this.#release();
    for (const { pin } of this.#pins) pin.release();
    this.tree.evict(Infinity);
    this.tree.checkIntegrity();
    const { nodes, cells, namespaces, leases, pinnedCells } = this.tree.stats();
    same([nodes, cells, namespaces, leases, pinnedCells, this.ops.open], [0, 0, 0, 0, 0, 0], "what is left");
  }

  #path(): Path {
    const random = this.#random;
    if (this.#paths.length > 0 && random.int(2) === 0) return random.pick(this.#paths);
    const length = 1 + random.int(12);
    const tokens = Int32Array.from({ length }, () => random.int(2));
    const events = [];
    for (let at = 0; at <= length; at++) if (random.int(7) === 0) events.push({ at, key: random.pick(["e", "f/1", "g/2"]) });
    const path = { tokens, events };
    if (this.#paths.length < 60) this.#paths.push(path);
    else this.#paths[random.int(60)] = path;
    return path;
  }

  #touch(namespace: string, path: Path, length: number): void {
    this.#tick++;
    for (let i = 0; i < length; i++) {
      const name = identity(namespace, path, i);
      const cell = this.#resident.get(name) ?? this.#known.get(name);
      if (cell !== undefined) cell.use = this.#tick;
      else this.#known.set(name, { namespace, path: cut(path, i + 1), use: this.#tick, rank: 0 });
    }
  }

  #hold(lease: MatchLease<Handle>, namespace: string, path: Path): void {
    const reads = new Set(Array.from({ length: lease.length - lease.start }, (_, i) => lease.start + i));
    this.#leases.push({ lease, namespace, path: cut(path, lease.length), reads });
    this.#touch(namespace, path, lease.length);
    for (const i of reads) {
      const cell = this.#cell(identity(namespace, path, i));
      if (cell !== undefined) cell.rank = 0;
    }
  }

  #cell(name: string): Cell | undefined {
    return this.#resident.get(name) ?? this.#known.get(name);
  }

  #match(): void {
    const random = this.#random;
    const [namespace, path] = [random.pick(NAMESPACES), this.#path()];
    const limit = random.int(4) === 0 ? random.int(path.tokens.length + 1) : path.tokens.length;
    const probe = this.tree.probe(namespace, path, limit);
    const lease = this.tree.match(namespace, path, limit);
    let cell = 0;
    let resident = 0;
    for (const span of lease.spans) {
      must(span.start === cell, () => `a span at ${span.start} and not ${cell}`);
      const wanted = identities(namespace, path, cell, cell + span.length);
      if (span.value === null) must(!wanted.some((one) => this.#resident.has(one)), () => `a hole where ${wanted} are`);
      else same(span.value.cells, wanted, "cells of a span");
      if (span.value !== null) resident += span.length;
      cell += span.length;
    }
    same([cell, lease.start], [lease.length, 0], "length of a match");
    if (this.tree.stats().nodes < 290) same([probe.length, probe.resident, probe.end], [lease.length, resident, lease.end], "probe and match");
    must((lease.end === "whole") === (probe.length === limit), () => `${lease.end} at ${lease.length} of ${limit}`);
    if (probe.length < limit) must(!this.#resident.has(identity(namespace, path, probe.length)), () => "a match that stops too early");
    this.#hold(lease, namespace, path);
  }

  #insert(): void {
    const random = this.#random;
    const [namespace, path] = [random.pick(NAMESPACES), this.#path()];
    if (this.tree.stats().nodes > 280) return;
    const known = this.tree.probe(namespace, path).length;
    const from = random.int(Math.min(known, path.tokens.length - 1) + 1);
    const to = from + 1 + random.int(path.tokens.length - from);
    const cells = identities(namespace, path, from, to);
    const since = Math.max(0, this.tree.epoch - random.int(5));
    const refused = this.#refused(namespace, path, to, since);
    const value = this.ops.make(cells);
    let lease: MatchLease<Handle>;
    try {
      lease = this.tree.insert(namespace, path, from, to, value, since);
    } catch (error) {
      must(refused && error instanceof RadixError && error.code === "path_erased", () => `insertion failed: ${String(error)}`);
      this.ops.release(value);
      return;
    }
    must(!refused, () => "an insertion of erased cells was not refused");
    cells.forEach((name, i) => {
      const cell = this.#cell(name) ?? { namespace, path: cut(path, from + i + 1), use: 0, rank: 0 };
      this.#known.delete(name);
      this.#resident.set(name, cell);
    });
    same(lease.spans.flatMap((span) => span.value!.cells), cells, "cells of an insertion");
    this.#hold(lease, namespace, path);
  }

  #release(): void {
    if (this.#leases.length === 0) return;
    const { lease, namespace, path } = this.#leases.splice(this.#random.int(this.#leases.length), 1)[0]!;
    lease.release();
    if (this.#random.int(2) === 0) lease.release();
    if (lease.length > lease.start) this.#touch(namespace, path, lease.length);
  }

  #skip(): void {
    if (this.#leases.length === 0 || this.tree.stats().nodes > 280) return;
    const { lease, namespace, path, reads } = this.#random.pick(this.#leases);
    const from = lease.start + this.#random.int(lease.length - lease.start + 1);
    const to = from + this.#random.int(lease.length - from + 1);
    lease.skip(from, to);
    for (let i = from; i < to; i++) {
      if (!reads.delete(i)) continue;
      const name = identity(namespace, path, i);
      if (!this.#readers().has(name)) this.#cell(name)!.rank = RANK.unread;
    }
    for (const span of lease.spans) {
      const cells = Array.from({ length: span.length }, (_, i) => span.start + i);
      if (span.value !== null) must(cells.every((i) => reads.has(i)), () => "a value in a skipped part");
    }
  }

  #rank(): void {
    if (this.#leases.length === 0 || this.tree.stats().nodes > 280) return;
    const { lease, namespace, path } = this.#random.pick(this.#leases);
    const from = lease.start + this.#random.int(lease.length - lease.start + 1);
    const to = from + this.#random.int(lease.length - from + 1);
    const rank = this.#random.int(4) - 2;
    lease.rank(from, to, rank);
    for (let i = from; i < to; i++) this.#cell(identity(namespace, path, i))!.rank = rank;
  }

  #pin(): void {
    if (this.#pins.length > 0 && this.#random.int(2) === 0) {
      this.#pins.splice(this.#random.int(this.#pins.length), 1)[0]!.pin.release();
      return;
    }
    if (this.#leases.length === 0 || this.tree.stats().nodes > 280) return;
    this.#expire();
    const { lease, namespace, path } = this.#random.pick(this.#leases);
    const from = lease.start + this.#random.int(lease.length - lease.start + 1);
    const to = from + this.#random.int(lease.length - from + 1);
    const account = this.#random.pick(["a", "b"]);
    const used = this.#pins.filter((pin) => pin.account === account).reduce((sum, pin) => sum + pin.cells.length, 0);
    same(this.tree.pinnedCells(account), used, "pinned cells");
    const until = this.#random.int(3) === 0 ? Infinity : this.#now + 1 + this.#random.int(5);
    let pin: Pin;
    try {
      pin = lease.pin(from, to, { account, until });
    } catch (error) {
      const exceeded = error instanceof RadixError && error.code === "pins_exceeded";
      must(exceeded && used + to - from > ACCOUNT_CELLS, () => `pin failed: ${String(error)}`);
      return;
    }
    must(used + to - from <= ACCOUNT_CELLS, () => "a pin beyond the budget");
    if (to > from) this.#pins.push({ pin, cells: identities(namespace, path, from, to), namespace, path: cut(path, to), until, account });
  }

  /** What an eviction ends: pins that have run out. */
  #expire(): void {
    for (let i = this.#pins.length - 1; i >= 0; i--) if (this.#pins[i]!.until <= this.#now) this.#pins.splice(i, 1);
  }

  #readers(): Set<string> {
    return new Set(this.#leases.flatMap(({ namespace, path, reads }) => [...reads].map((i) => identity(namespace, path, i))));
  }

  #evict(): void {
    this.#expire();
    const revokePins = this.#random.int(4) === 0;
    const wanted = 1 + this.#random.int(5);
    const evicted = this.tree.evict(wanted, { revokePins });
    const readers = this.#readers();
    const pinned = new Set(this.#pins.flatMap((pin) => pin.cells));
    const gone = [...this.#resident].filter(([name]) => !this.ops.tree.has(name));
    same(evicted, gone.length, "evicted cells");
    for (const [name, cell] of gone) {
      must(!readers.has(name), () => `a leased cell was evicted: ${name}`);
      this.#resident.delete(name);
      this.#known.set(name, cell);
    }
    const left = [...this.#resident].filter(([name]) => !readers.has(name));
    const leftFree = left.filter(([name]) => !pinned.has(name));
    if (evicted < wanted) same(revokePins ? left.length : leftFree.length, 0, "cells that could have been evicted");
    for (const [name, cell] of gone) {
      if (pinned.has(name)) must(revokePins && leftFree.length === 0, () => `a pinned cell was evicted: ${name}`);
      const rivals = pinned.has(name) ? left : leftFree;
      for (const [other, rival] of rivals) {
        const above = this.#lru && cell.use === rival.use && other.startsWith(`${name} `);
        const wrong = cell.rank !== rival.rank ? cell.rank > rival.rank : above || (this.#lru && cell.use > rival.use);
        must(!wrong, () => `${name} (rank ${cell.rank}, use ${cell.use}) went before ${other} (rank ${rival.rank}, use ${rival.use})`);
      }
    }
  }

  #erase(): void {
    const random = this.#random;
    const raw = rawTokens(this.#path()).map(({ token }) => token);
    if (raw.length === 0) return;
    const to = 1 + random.int(raw.length);
    const from = random.int(to);
    const tokens = raw.slice(0, to);
    const namespaces = NAMESPACES.filter(() => random.int(2) === 0);
    const except = random.int(2) === 0 ? this.#path() : null;
    const known = this.#knownPaths();
    const pattern = { tokens: Int32Array.from(tokens), from, ...(except === null ? {} : { except }) };
    const erasure = this.tree.erase((namespace) => namespaces.includes(namespace), pattern);
    const doomed = new Set<string>();
    for (const { namespace, path } of known) {
      if (!namespaces.includes(namespace)) continue;
      const [first, end] = textCells(path, tokens, from);
      for (let i = first; i < end; i++) doomed.add(identity(namespace, path, i));
    }
    if (except !== null) {
      for (const namespace of namespaces) for (const name of identities(namespace, except, 0, except.tokens.length)) doomed.delete(name);
    }
    let cells = 0;
    for (const name of doomed) {
      const cell = this.#resident.get(name);
      if (cell === undefined) continue;
      cells++;
      this.#resident.delete(name);
      this.#known.set(name, cell);
    }
    same(erasure.cells, cells, "erased cells");
    for (const name of this.#resident.keys()) must(this.ops.tree.has(name), () => `${name} was erased and is no part of it`);
    this.#fences.push({ epoch: erasure.epoch, namespaces, tokens, from, except: except === null ? null : { namespace: "", path: except } });
  }

  /** Every path to a cell that the tree must know. */
  #knownPaths(): { namespace: string; path: Path }[] {
    const readers = this.#leases.map(({ namespace, path }) => ({ namespace, path }));
    this.#expirePinsOf();
    return [...this.#resident.values(), ...readers, ...this.#pins.map(({ namespace, path }) => ({ namespace, path }))];
  }

  /** Pins that ran out hold their nodes until the next eviction looks: both sides look now. */
  #expirePinsOf(): void {
    this.tree.pinnedCells("a");
    this.#expire();
  }

  #refused(namespace: string, path: Path, to: number, since: number): boolean {
    if (since < this.tree.epoch - 3) return true;
    return this.#fences.some((fence) => {
      if (fence.epoch <= since || !fence.namespaces.includes(namespace)) return false;
      if (firstDoomed(path, fence.tokens, fence.from) >= to) return false;
      if (fence.except === null || fence.except.path.tokens.length < to) return true;
      return identity("", path, to - 1) !== identity("", fence.except.path, to - 1);
    });
  }
}

function cut(path: Path, length: number): Path {
  return { tokens: path.tokens.slice(0, length), events: path.events.filter((event) => event.at < length) };
}

/** Tokens of the log, without the cells that events own, and the cell of each. */
function rawTokens(path: Path): { token: number; cell: number }[] {
  const raw: { token: number; cell: number }[] = [];
  let owned = 0;
  path.tokens.forEach((token, cell) => {
    const event = path.events.find((one) => one.at === cell);
    if (event !== undefined) owned += ownedCells(event.key);
    if (owned > 0) owned--;
    else raw.push({ token, cell });
  });
  return raw;
}

/** The first cell of the text where the path has all of it. */
function firstDoomed(path: Path, tokens: readonly number[], from: number): number {
  const raw = rawTokens(path);
  return tokens.every((token, i) => raw[i]?.token === token) ? raw[from]!.cell : Infinity;
}

/** Cells of the text as far as the path has it, and, where it has all of it, what is behind. */
function textCells(path: Path, tokens: readonly number[], from: number): [first: number, end: number] {
  const raw = rawTokens(path);
  const differs = tokens.findIndex((token, i) => raw[i]?.token !== token);
  if (differs >= 0 && differs <= from) return [0, 0];
  return [raw[from]!.cell, differs < 0 ? path.tokens.length : (raw[differs]?.cell ?? path.tokens.length)];
}
