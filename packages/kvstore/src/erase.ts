import { createHash } from "node:crypto";
import { PathAddresses, type LogPath } from "./address.ts";
import type { BlockIndex, Entry } from "./block-index.ts";
import { KvstoreError } from "./errors.ts";

/** What must go: a text at its place in a log, and everything that was computed after it. Fits `ErasePattern` of @palimpsest/radix. */
export interface ErasePattern {
  /** Tokens of the log without any that events own, up to the end of the text. */
  tokens: Int32Array;
  /** First token of the text. */
  from: number;
  /** A path whose own blocks stay: that of the log as it is without the text. */
  except?: LogPath;
}

/** What an erasure did, to be kept by whoever asked for it. */
export interface Receipt {
  /** When it was complete, ISO 8601. */
  time: string;
  /** SHA-256 of what was erased: the tokens up to the end of the text, and where it begins. */
  path: string;
  /** Cells that went, by tier. */
  cells: Record<string, number>;
  /**
   * Blocks that a tier could not be made to forget now, these or others. They are found by nobody here; give them as `refused` to an
   * archive that opens the tier again.
   */
  unreachable: { tier: string; keys: string[] }[];
}

export function patternHash({ tokens, from }: ErasePattern): string {
  const bytes = new DataView(new ArrayBuffer(4 * tokens.length + 4));
  bytes.setUint32(0, from, true);
  tokens.forEach((token, i) => bytes.setInt32(4 * i + 4, token, true));
  return createHash("sha256").update(new Uint8Array(bytes.buffer)).digest("hex");
}

export function checkPattern({ tokens, from }: ErasePattern): void {
  if (!Number.isInteger(from) || from < 0 || from >= tokens.length) {
    throw new KvstoreError("argument_invalid", `[${from}, ${tokens.length}) is no text to erase`, "pattern.from");
  }
}

/** How far a way through blocks has come in the text of a pattern. */
interface Progress {
  matched: number;
  /** Cells to come that an event owns. */
  owned: number;
  /** Whether the block has cells of the text, or cells that events put between them. */
  text: boolean;
  /** A token was not as in the pattern. */
  broken: boolean;
}

/**
 * The blocks that hold a cell of the text, also on ways that leave the text or end before its end, and all that are behind the whole
 * text, in all histories, whatever their events.
 */
export function findErased(
  index: BlockIndex,
  blockCells: number,
  covers: (namespace: string) => boolean,
  pattern: ErasePattern,
  ownedCells: (eventKey: string) => number,
): Set<Entry> {
  const doomed = new Set<Entry>();
  for (const namespace of index.namespaces()) {
    if (!covers(namespace)) continue;
    const spared = sparedKeys(namespace, blockCells, pattern.except);
    const open = [...index.roots(namespace)].map((entry) => ({ entry, before: { matched: 0, owned: 0, text: false, broken: false } }));
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { entry } = next;
      const whole = next.before.matched === pattern.tokens.length;
      const progress = whole ? { ...next.before, text: true } : advance(next.before, entry, pattern, ownedCells);
      if (progress.text && !spared.has(entry.key)) doomed.add(entry);
      if (progress.broken) continue;
      for (const child of entry.children ?? []) open.push({ entry: child, before: progress });
    }
  }
  return doomed;
}

function sparedKeys(namespace: string, blockCells: number, except: LogPath | undefined): Set<string> {
  const addresses = new PathAddresses(namespace, blockCells);
  if (except !== undefined) addresses.extend(except);
  return new Set(Array.from({ length: addresses.blocks }, (_, number) => addresses.key(number)));
}

function advance(before: Progress, entry: Entry, pattern: ErasePattern, ownedCells: (eventKey: string) => number): Progress {
  let { matched, owned } = before;
  let text = false;
  let nextEvent = 0;
  for (let i = 0; i < entry.tokens.length; i++) {
    if (entry.events[nextEvent]?.at === i) owned += ownedCells(entry.events[nextEvent++]!.key);
    if (owned > 0) {
      owned--;
      text ||= matched > pattern.from;
    } else if (matched === pattern.tokens.length) {
      text = true;
    } else if (entry.tokens[i] === pattern.tokens[matched]) {
      text ||= matched >= pattern.from;
      matched++;
    } else {
      return { matched, owned, text, broken: true };
    }
  }
  return { matched, owned, text, broken: false };
}
