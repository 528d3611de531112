import type { BlockAddress } from "./address.ts";
import { KvstoreError } from "./errors.ts";

/** A block that some tier holds, or that others which some tier holds are behind. */
export interface Entry extends BlockAddress {
  parent: Entry | null;
  children: Set<Entry> | null;
  /** Whose budget it counts against. */
  account: string;
  /** CRC-32 of the cells; 0 until they were read once. */
  checksum: number;
  /** Bit t: tier t holds the cells. */
  tiers: number;
  /** Bit t: tier t was given a record of it: it has the meta, if it keeps any. */
  given: number;
  /** On its way from the device, or between tiers: keeps its place. */
  moving: number;
  /** False once it is in no index any more. */
  known: boolean;
}

/**
 * All blocks of all tiers by address, and how they follow each other. A block without cells stays while blocks behind it are known:
 * without it nobody could say what text those were computed with.
 */
export class BlockIndex {
  readonly #entries = new Map<string, Entry>();
  /** First blocks of each namespace. */
  readonly #roots = new Map<string, Set<Entry>>();

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Entry | undefined {
    return this.#entries.get(key);
  }

  values(): IterableIterator<Entry> {
    return this.#entries.values();
  }

  namespaces(): IterableIterator<string> {
    return this.#roots.keys();
  }

  roots(namespace: string): Iterable<Entry> {
    return this.#roots.get(namespace) ?? [];
  }

  /** The entry of a block whose parent is known already. */
  add(address: BlockAddress, parent: Entry | null, account: string): Entry {
    if (this.#entries.has(address.key)) throw new KvstoreError("archive_damaged", `block ${address.key} is known already`);
    const entry: Entry = { ...address, parent, children: null, account, checksum: 0, tiers: 0, given: 0, moving: 0, known: true };
    this.#entries.set(entry.key, entry);
    if (parent === null) {
      const roots = this.#roots.get(entry.namespace) ?? new Set();
      this.#roots.set(entry.namespace, roots.add(entry));
    } else {
      parent.children ??= new Set();
      parent.children.add(entry);
    }
    return entry;
  }

  /** Forgets `entry` and then its parents as long as nothing needs them. Returns those that went. */
  prune(entry: Entry): Entry[] {
    const gone: Entry[] = [];
    for (let at: Entry | null = entry; at !== null && at.known && at.tiers === 0 && at.moving === 0 && at.children === null; at = at.parent) {
      this.#unlink(at);
      gone.push(at);
    }
    return gone;
  }

  /**
   * Forgets these entries whatever they hold. Where others are behind one of them, another entry without cells takes its place, so that
   * whoever still has the old one in hand sees that it is not known any more. Returns parents that went as well.
   */
  cut(entries: Iterable<Entry>): Entry[] {
    const parents = new Set<Entry>();
    for (const entry of [...entries].toSorted((one, other) => other.number - one.number)) {
      const { parent, children } = entry;
      this.#unlink(entry);
      if (parent !== null) parents.add(parent);
      if (children === null) continue;
      const { key, namespace, number, tokens, events, account, given } = entry;
      const hollow = this.add({ key, namespace, number, tokens, events }, parent, account);
      hollow.given = given;
      hollow.children = children;
      for (const child of children) child.parent = hollow;
    }
    return [...parents].flatMap((parent) => (parent.known ? this.prune(parent) : []));
  }

  #unlink(entry: Entry): void {
    this.#entries.delete(entry.key);
    entry.known = false;
    if (entry.parent === null) {
      const roots = this.#roots.get(entry.namespace)!;
      roots.delete(entry);
      if (roots.size === 0) this.#roots.delete(entry.namespace);
    } else if (entry.parent.children !== null) {
      entry.parent.children.delete(entry);
      if (entry.parent.children.size === 0) entry.parent.children = null;
    }
  }
}

const META_VERSION = 1;

export interface BlockMeta extends BlockAddress {
  parentKey: string | null;
  checksum: number;
}

/** What a durable tier keeps beside the cells, so that the index can be built again. */
export function encodeMeta(entry: Entry): Uint8Array {
  const events = entry.events.map(({ at, key }) => [at, key]);
  const fields = [META_VERSION, entry.namespace, entry.parent?.key ?? null, entry.number, entry.checksum, [...entry.tokens], events];
  return new TextEncoder().encode(JSON.stringify(fields));
}

/** Null: of another version, or damaged. */
export function decodeMeta(key: string, meta: Uint8Array): BlockMeta | null {
  let fields: unknown;
  try {
    fields = JSON.parse(new TextDecoder().decode(meta));
  } catch {
    return null;
  }
  if (!Array.isArray(fields) || fields.length !== 7 || fields[0] !== META_VERSION) return null;
  const [, namespace, parentKey, number, checksum, tokens, events] = fields as [number, string, string | null, number, number, number[], [number, string][]];
  return { key, namespace, parentKey, number, checksum, tokens: Int32Array.from(tokens), events: events.map(([at, name]) => ({ at, key: name })) };
}
