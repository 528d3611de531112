import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { CellArchive, PagePool, PathAddresses, SealedTier, type Block, type LogPath, type Receipt } from "../src/index.ts";
import { must, Random, same } from "./support.ts";
import { CELL_BYTES, FaultyKeys, FaultyPort, FaultyTier, World, type Disk, type KeyTable } from "./world.ts";

const LONG = process.env["PALIMPSEST_LONG"] === "1";
const SEEDS = LONG ? 1_000 : 100;
const STEPS = 1_000;
const BLOCK_CELLS = 2;
const BLOCK_BYTES = BLOCK_CELLS * CELL_BYTES;
const PAGES = 40;
const DEADLINE_MS = 100;
const NAMESPACES = ["n", "m"];
const TURN = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The bytes of a cell: a function of everything that led to it, as keys and values are. */
function cellBytes(namespace: string, path: LogPath, cell: number): Uint8Array {
  const events = path.events.filter((event) => event.at <= cell);
  const text = JSON.stringify([namespace, [...path.tokens.subarray(0, cell + 1)], events]);
  return createHash("sha256").update(text).digest().subarray(0, CELL_BYTES);
}

interface Known {
  namespace: string;
  path: LogPath;
  addresses: PathAddresses;
}

/** Blocks that have cells of a text, or of what is behind all of it. */
function textBlocks({ path, addresses }: Known, tokens: Int32Array, from: number): string[] {
  const differs = tokens.findIndex((token, i) => path.tokens[i] !== token);
  if (differs >= 0 && differs <= from) return [];
  const first = Math.floor(from / BLOCK_CELLS);
  const end = differs < 0 ? addresses.blocks : Math.min(addresses.blocks, Math.ceil(differs / BLOCK_CELLS));
  return Array.from({ length: Math.max(0, end - first) }, (_, i) => addresses.key(first + i));
}

class Simulation {
  readonly #random: Random;
  readonly #disk: Disk = new Map();
  readonly #keyTable: KeyTable = new Map();
  readonly #sealed: boolean;
  readonly #paths: Known[] = [];
  #world: World;
  #port: FaultyPort;
  #pool: PagePool;
  #archive!: CellArchive;
  readonly #keys: ReadonlySet<string>;
  /** Work whose end the simulation waits for. */
  #tasks = new Set<Promise<void>>();
  readonly #receipts: Receipt[] = [];
  /** By key: blocks that may exist again after an erasure, since they were offered again. */
  #offered = new Set<string>();
  #everFaulty = false;
  /** Blocks of erasures that have not ended. */
  #erasing: Set<string>[] = [];
  arrived = 0;
  survived = 0;
  deaths = 0;
  erased = 0;

  constructor(random: Random) {
    this.#random = random;
    this.#sealed = random.int(2) === 0;
    this.#world = new World(random);
    this.#port = new FaultyPort(this.#world, PAGES * 3);
    this.#pool = new PagePool({ pages: PAGES, pageSize: 3 });
    for (let i = 0; i < 30; i++) this.#paths.push(this.#path(i));
    this.#keys = new Set(this.#paths.flatMap(({ addresses }) => Array.from({ length: addresses.blocks }, (_, number) => addresses.key(number))));
  }

  async start(): Promise<void> {
    this.#world = new World(this.#random);
    this.#world.faults = this.#everFaulty ? this.#random.pick([0, 20, 200]) : this.#random.pick([0, 0, 0, 0, 20]);
    this.#everFaulty ||= this.#world.faults > 0;
    this.#port = new FaultyPort(this.#world, PAGES * 3);
    this.#pool = new PagePool({ pages: PAGES, pageSize: 3 });
    this.#tasks = new Set();
    const host = new FaultyTier(this.#world, "host", 6 * BLOCK_BYTES, false, new Map());
    const disk = new FaultyTier(this.#world, "disk", 20 * BLOCK_BYTES, true, this.#disk);
    const sealed = this.#sealed ? new SealedTier(disk, new FaultyKeys(this.#world, this.#keyTable)) : disk;
    const opening = CellArchive.open({
      port: this.#port,
      tiers: this.#random.int(3) === 0 ? [sealed] : [host, sealed],
      blockCells: BLOCK_CELLS,
      limits: { deadlineMs: DEADLINE_MS, batchBytes: 3 * BLOCK_BYTES, demotingBytesMax: 8 * BLOCK_BYTES, promotingBytesMax: 6 * BLOCK_BYTES },
      budgets: { accounts: { m: 9 * BLOCK_BYTES } },
      accountOf: (namespace) => namespace,
      clock: this.#world,
      refused: this.#receipts.flatMap(({ unreachable }) => unreachable),
    });
    const { faults } = this.#world;
    // Keys that cannot be sorted out are an error of `open`.
    if (this.#sealed) this.#world.faults = 0;
    this.#archive = await this.#answered(opening);
    this.#world.faults = faults;
  }

  async step(): Promise<void> {
    const action = this.#random.int(100);
    if (action < 30) this.#demote();
    else if (action < 45) this.#promote();
    else if (action < 80) for (let i = this.#random.int(4); i >= 0; i--) this.#world.answer();
    else if (action < 90) this.#world.pass(this.#random.int(3) === 0 ? DEADLINE_MS : this.#random.int(10));
    else if (action < 93) this.#erase();
    else if (action < 95) this.#archive.cancelDemotion();
    else if (action < 96) await this.#settle();
    else if (action < 97 && this.#random.int(3) === 0) await this.#die();
    await TURN();
    this.#archive.checkIntegrity();
    this.#pool.checkIntegrity();
  }

  /** Everything that was begun is answered: nothing may be left over. */
  async finish(): Promise<void> {
    await this.#settle();
    await this.#answered(this.#archive.close());
  }

  #path(seed: number): Known {
    const random = this.#random;
    const namespace = random.pick(NAMESPACES);
    // Paths continue others, so that blocks are shared.
    const base = seed > 0 && random.int(3) > 0 ? this.#paths[random.int(seed)]!.path : { tokens: new Int32Array(0), events: [] };
    const kept = random.int(base.tokens.length + 1);
    const more = Int32Array.from({ length: 2 + random.int(8) }, () => random.int(3));
    const events = base.events.filter((event) => event.at < kept);
    if (random.int(3) === 0) events.push({ at: kept, key: `e${random.int(2)}` });
    const path = { tokens: Int32Array.from([...base.tokens.subarray(0, kept), ...more]), events };
    const addresses = new PathAddresses(namespace, BLOCK_CELLS);
    addresses.extend(path);
    return { namespace, path, addresses };
  }

  /** Computes some blocks of a path and lets them go. */
  #demote(): void {
    const known = this.#random.pick(this.#paths);
    const { addresses, namespace, path } = known;
    const from = this.#random.int(addresses.blocks);
    const to = from + 1 + this.#random.int(addresses.blocks - from);
    const cells = (to - from) * BLOCK_CELLS;
    if (Math.ceil(cells / 3) > this.#pool.free) return;
    const lease = this.#pool.allocateCells(cells, "leased");
    for (let i = 0; i < cells; i++) this.#port.cell(lease.slot(i)).set(cellBytes(namespace, path, from * BLOCK_CELLS + i));
    const blocks: Block[] = [];
    for (let number = from; number < to; number++) {
      const first = (number - from) * BLOCK_CELLS;
      blocks.push({ addresses, number, cells: [lease.slice(first, first + 1, "leased"), lease.slice(first + 1, first + 2, "leased")] });
      this.#offered.add(addresses.key(number));
    }
    lease.release();
    this.#archive.demote(blocks);
  }

  #promote(): void {
    const { addresses, namespace, path } = this.#random.pick(this.#paths);
    const from = this.#random.int(addresses.blocks);
    const to = from + 1 + this.#random.int(addresses.blocks - from);
    const cells = (to - from) * BLOCK_CELLS;
    if (Math.ceil(cells / 3) > this.#pool.free) return;
    const lease = this.#pool.allocateCells(cells, "leased");
    const blocks = Array.from({ length: to - from }, (_, i): Block => {
      return { addresses, number: from + i, cells: [lease.slice(i * BLOCK_CELLS, (i + 1) * BLOCK_CELLS, "leased")] };
    });
    const abort = new AbortController();
    if (this.#random.int(8) === 0) this.#world.after(this.#random.int(20), () => abort.abort());
    const deadlineMs = this.#random.int(3) === 0 ? this.#random.int(30) : undefined;
    const work = async () => {
      const results = await this.#archive.promote(blocks, { signal: abort.signal, deadlineMs });
      results.forEach((result, i) => {
        if (result !== "arrived") return;
        this.arrived++;
        for (let cell = i * BLOCK_CELLS; cell < (i + 1) * BLOCK_CELLS; cell++) {
          const wanted = [...cellBytes(namespace, path, from * BLOCK_CELLS + cell)];
          same([...this.#port.cell(lease.slot(cell))], wanted, `cell ${cell} that arrived`);
        }
      });
      for (const block of blocks) for (const one of block.cells) one.release();
      lease.release();
    };
    this.#track(work());
  }

  #erase(): void {
    if (this.#random.int(3) > 0) return;
    const { path } = this.#random.pick(this.#paths);
    const to = 1 + this.#random.int(path.tokens.length);
    const from = this.#random.int(to);
    const tokens = path.tokens.slice(0, to);
    const covered = new Set(NAMESPACES.filter(() => this.#random.int(3) > 0));
    const doomed = new Set(this.#paths.filter(({ namespace }) => covered.has(namespace)).flatMap((known) => textBlocks(known, tokens, from)));
    this.#erasing.push(doomed);
    // From now on only what is offered again may be found.
    const earlier = this.#offered;
    const offered = new Set([...earlier].filter((key) => !doomed.has(key)));
    this.#offered = offered;
    const work = async () => {
      const receipt = await this.#archive.erase((namespace) => covered.has(namespace), { tokens, from });
      this.#erasing.splice(this.#erasing.indexOf(doomed), 1);
      this.erased += Object.values(receipt.cells).reduce((sum, cells) => sum + cells, 0);
      this.#receipts.push(receipt);
      const left = new Set(receipt.unreachable.filter(({ tier }) => tier === "disk").flatMap(({ keys }) => keys));
      for (const key of doomed) {
        if (this.#offered.has(key) || offered.has(key) || left.has(key)) continue;
        must((this.#disk.get(key)?.bytes ?? null) === null, () => `block ${key} is on the disk after its erasure`);
      }
    };
    this.#track(work());
    for (const { addresses } of this.#paths) {
      const found = this.#archive.find(addresses);
      found.forEach((there, number) => must(!there || !doomed.has(addresses.key(number)), () => "a block was found after its erasure"));
    }
  }

  /** Lets everything come to its end, and looks for what was lost or left over. */
  async #settle(restarted = false): Promise<void> {
    const faults = this.#world.faults;
    this.#world.faults = 0;
    await this.#answered(Promise.all(this.#tasks));
    await this.#answered(this.#archive.idle());
    // Late answers may still come, and what they leave behind is removed with the next change.
    await this.#answered(TURN());
    same(await this.#answered(this.#archive.tidy()), true, "everything removed");
    await this.#answered(this.#archive.idle());
    const stats = this.#archive.stats();
    const whole = [...this.#disk.values()].filter(({ bytes }) => bytes !== null);
    // A write that was lost is noticed when it is looked for; after a restart there is nothing to notice.
    const listed = stats.tiers.find(({ name }) => name === "disk")!.blocks;
    must(restarted ? whole.length === listed : whole.length <= listed, () => `${whole.length} blocks on the disk, ${listed} in the index`);
    // What could not be reached by then has been.
    same(this.#archive.unreachable(), [], "what is unreachable");
    this.#receipts.length = 0;
    same([stats.demotingBytes, stats.promotingBytes], [0, 0], "bytes on their way");
    for (const key of this.#disk.keys()) must(this.#keys.has(key), () => `a record of an unknown block ${key}`);
    if (!this.#everFaulty) must(this.#disk.size <= stats.known, () => `${this.#disk.size} records of ${stats.known} blocks that are known`);
    // Two keys for a block, one for what others are behind; none for anything else.
    if (this.#sealed && !this.#everFaulty) must(this.#keyTable.size <= listed + stats.known, () => `${this.#keyTable.size} keys for ${listed} blocks of ${stats.known}`);
    const { cached, leased, held } = this.#pool.audit();
    same([cached, leased, held], [0, 0, 0], "pages that somebody still holds");
    this.#world.faults = faults;
  }

  /** The process is killed: what was being written may be there, in part, or not. */
  async #die(): Promise<void> {
    this.deaths++;
    const known = new Set(this.#paths.flatMap(({ addresses }) => this.#archive.find(addresses).flatMap((there, i) => (there ? [addresses.key(i)] : []))));
    this.#world.end((call) => {
      if (this.#random.int(2) === 0) call();
    });
    await TURN();
    const onDisk = [...this.#disk].flatMap(([key, { bytes }]) => (bytes === null ? [] : [key]));
    const committed = new Set(onDisk.filter((key) => known.has(key)));
    // A tier that lost writes may have lost what a block hangs on; one that was slow may have more than it was meant to.
    const ofM = this.#paths.flatMap(({ namespace, addresses }) => (namespace === "m" ? Array.from({ length: addresses.blocks }, (_, i) => addresses.key(i)) : []));
    const refused = new Set(this.#receipts.flatMap(({ unreachable }) => unreachable.flatMap(({ keys }) => keys)));
    // What was being erased may be gone, there, or half of both.
    for (const doomed of this.#erasing) for (const key of doomed) refused.add(key);
    this.#erasing = [];
    const sure = !this.#everFaulty && onDisk.length <= 20 && new Set(ofM.filter((key) => onDisk.includes(key))).size <= 9;
    await this.start();
    await this.#settle(true);
    for (const { addresses } of sure ? this.#paths : []) {
      const found = this.#archive.find(addresses);
      this.survived += found.filter(Boolean).length;
      found.forEach((there, number) => {
        const key = addresses.key(number);
        const cutOff = Array.from({ length: number + 1 }, (_, i) => addresses.key(i)).some((one) => refused.has(one));
        must(there || cutOff || !committed.has(key), () => `block ${key} was committed and is lost`);
      });
    }
  }

  #track(work: Promise<void>): void {
    const world = this.#world;
    const task: Promise<void> = work.finally(() => this.#tasks.delete(task));
    task.catch((error: unknown) => {
      if (!world.ended) this.failure ??= error;
    });
    this.#tasks.add(task);
  }

  failure: unknown = null;

  /** Answers everything, at once or late, until `work` is done. */
  async #answered<T>(work: Promise<T>): Promise<T> {
    const state = { done: false };
    const end = () => {
      state.done = true;
    };
    void work.then(end, end);
    for (let turn = 0; !state.done || this.#world.waiting > 0; turn++) {
      must(turn < 10_000, () => "something waits for ever");
      this.#world.answer();
      if (turn % 50 === 49) this.#world.pass(1);
      await TURN();
    }
    return work;
  }
}

describe("an archive with tiers that fail, answer late, tear writes and die", () => {
  it(`loses, doubles, mistakes and leaks nothing in ${SEEDS} seeds of ${STEPS} steps`, { timeout: 3_600_000 }, async () => {
    let [arrived, deaths, erased, survived] = [0, 0, 0, 0];
    for (let seed = 1; seed <= SEEDS; seed++) {
      const simulation = new Simulation(new Random(seed));
      let step = 0;
      try {
        await simulation.start();
        for (; step < STEPS; step++) {
          await simulation.step();
          if (simulation.failure !== null) throw simulation.failure;
        }
        await simulation.finish();
      } catch (error) {
        throw new Error(`seed ${seed}, step ${step}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
      }
      arrived += simulation.arrived;
      deaths += simulation.deaths;
      erased += simulation.erased;
      survived += simulation.survived;
    }
    console.log(`${arrived} blocks arrived, ${deaths} deaths, ${erased} cells erased, ${survived} blocks survived for sure`);
    expect(arrived).toBeGreaterThan(SEEDS * 10);
    expect(deaths).toBeGreaterThan(SEEDS);
    expect(erased).toBeGreaterThan(SEEDS);
    expect(survived).toBeGreaterThan(SEEDS);
  });
});
