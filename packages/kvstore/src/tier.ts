/** What a tier keeps of one block. */
export interface TierRecord {
  key: string;
  /** What the archive needs to know of the block after a restart. */
  meta: Uint8Array;
  /** The cells; null: only the meta is kept, of a block that others are behind, unless the tier has one of it already. */
  bytes: Uint8Array | null;
}

/** What a tier found when it was opened. `bytes` is the length of the cells, −1: only the meta is there. */
export interface TierEntry {
  key: string;
  meta: Uint8Array;
  bytes: number;
}

/**
 * Where bytes of cells lie outside the device: host memory, a disk, another machine. A tier stores and finds; it decides nothing. The
 * archive makes its calls of `put` and `remove` one after another, reads beside them, and never counts on the order of two calls of
 * which the first has not answered.
 */
export interface Tier {
  /** For figures and receipts: "host", "disk". */
  readonly name: string;
  /** Bytes of cells that it may hold. */
  readonly bytesMax: number;
  /** Whether it keeps metas for a restart. */
  readonly durable: boolean;
  /** What it holds already. Called once, before anything else. What is damaged is left out, and removed. */
  load(): Promise<TierEntry[]>;
  /** Does what can be done of a `put` beside other changes, such as encrypting; the archive then lets `commit` take its turn. */
  prepare?(records: readonly TierRecord[]): Promise<PreparedPut>;
  /** Stores all of the records or none, in place of earlier ones of these keys. Resolves when they survive what the tier survives. */
  put(records: readonly TierRecord[]): Promise<void>;
  /** The cells of each key, for the caller to keep; null where there are none that are whole. */
  get(keys: readonly string[]): Promise<(Uint8Array | null)[]>;
  /** Afterwards nobody can read the cells of these keys from here, also with what is left of them on a disk. `meta`: that goes as well. */
  remove(keys: readonly string[], meta: boolean): Promise<void>;
  close(): Promise<void>;
}

export interface PreparedPut {
  /** The rest of the `put`. Called at most once. */
  commit(): Promise<void>;
  /** It will not be called. */
  cancel(): Promise<void>;
}

/** The engine's cells, named by slot. Calls run beside steps: they touch only cells that no step writes. */
export interface CellPort {
  /** Bytes of one cell in all layers. */
  readonly cellBytes: number;
  /** Copies the cells of `slots`, one after another, to `into`. */
  read(slots: Int32Array, into: Uint8Array): Promise<void>;
  /** The inverse. */
  write(slots: Int32Array, from: Uint8Array): Promise<void>;
  /** Overwrites cells with zeros. */
  clear(slots: Int32Array): Promise<void>;
}
