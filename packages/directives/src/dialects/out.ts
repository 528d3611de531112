import { lowerAll } from "../lower.ts";
import type { Operation } from "../operations.ts";
import type { Registry } from "../registry.ts";
import { firstOwnedFrom } from "../resolve.ts";
import type { Directive, Fold, Log, Range } from "../types.ts";
import { standardRegistry } from "../verbs/index.ts";
import type { DialectReading } from "./messages.ts";

/** A stretch of an edited prompt: the log's tokens from `raw` on, or (−1) tokens that a directive brought. */
export interface PromptPiece {
  raw: number;
  length: number;
}

/** What an engine without directives is given: the text that is visible in the end. */
export interface EditedPrompt {
  tokens: Int32Array;
  pieces: PromptPiece[];
}

/** A fold as a plain prompt, for engines that have only text edits: they prefill everything behind the first edit again. */
export function writeTextEdits(folded: Fold): DialectReading<EditedPrompt> {
  const { births, tokens, events, forgotten, nextPosition, visible } = folded;
  const open = births[births.length - 1]!;
  const stretches = [...open.view.map(({ cell, length }): Range => [cell, cell + length]), [open.cell, open.cell + open.length] as const];
  const prompt = new Int32Array(visible);
  const pieces: PromptPiece[] = [];
  let length = 0;
  for (const [start, end] of stretches) {
    prompt.set(tokens.subarray(start, end), length);
    length += end - start;
    for (const piece of originsOf(folded, start, end)) pushPiece(pieces, piece);
  }
  const losses: string[] = [];
  if (events.length > 0) losses.push("what was computed while hidden text was visible is computed again without it, at other positions");
  if (nextPosition !== visible) losses.push("positions that a drop left unused are closed up");
  if (forgotten > 0) losses.push("nothing is erased from the engine's cache");
  if (folded.retention.length > 0) losses.push("retention is lost");
  return { value: { tokens: prompt, pieces }, losses };
}

/** Where cells [start, end) come from. */
function originsOf({ births, origins }: Fold, start: number, end: number): PromptPiece[] {
  const pieces: PromptPiece[] = [];
  for (const { cell, length, token } of births) {
    const [from, to] = [Math.max(start, cell), Math.min(end, cell + length)];
    if (from >= to) continue;
    if (token < 0) pieces.push({ raw: -1, length: to - from });
    else if (origins === null) pieces.push({ raw: token + from - cell, length: to - from });
    else {
      for (const origin of origins) {
        const [first, last] = [Math.max(token + from - cell, origin.token), Math.min(token + to - cell, origin.token + origin.length)];
        if (first < last) pieces.push({ raw: origin.raw < 0 ? -1 : origin.raw + first - origin.token, length: last - first });
      }
    }
  }
  return pieces;
}

function pushPiece(pieces: PromptPiece[], piece: PromptPiece): void {
  const last = pieces[pieces.length - 1];
  const joins = last && (piece.raw < 0 ? last.raw < 0 : last.raw >= 0 && last.raw + last.length === piece.raw);
  if (joins) last.length += piece.length;
  else pieces.push({ ...piece });
}

/** A prompt for llama.cpp's `--cache-reuse N`: its server finds the stretches that stayed and shifts them. */
export interface CacheReusePrompt extends EditedPrompt {
  /** The smallest stretch that must be reused: N. 0: nothing was moved. */
  n_cache_reuse: number;
}

/** A fold as a prompt whose unchanged stretches llama-server can reuse by shifting; the rest is as with text edits. */
export function writeCacheReuse(folded: Fold): DialectReading<CacheReusePrompt> {
  const { value, losses } = writeTextEdits(folded);
  const moved: number[] = [];
  let position = 0;
  for (const { raw, length } of value.pieces) {
    if (raw >= 0 && raw !== position) moved.push(length);
    position += length;
  }
  const own = losses.filter((loss) => !loss.startsWith("what was computed"));
  if (moved.length > 0) own.push("moved cells are rotated in place and kept as they were computed; each stretch must be sent in order, and other slots do not share them");
  return { value: { ...value, n_cache_reuse: moved.length === 0 ? 0 : Math.min(...moved) }, losses: own };
}

export interface AkvFields {
  drop_message: Record<string, number[]>;
  reposition: number[];
}

/** Directives as AKV's fields, for an engine that has those: whole messages, at the ends of messages. Everything else is lost, by name. */
export function writeAkv(log: Log, directives: readonly Directive[], registry: Registry = standardRegistry): DialectReading<AkvFields> {
  const drops = new Map<number, Set<number>>();
  const repositions = new Set<number>();
  const losses: string[] = [];
  lowerAll(registry, log, directives).forEach(({ operations }, index) => {
    for (const operation of operations) {
      const loss = writeOperation(log, operation, drops, repositions);
      if (loss !== null) losses.push(`directives[${index}] (${directives[index]!.op}): ${loss}`);
    }
  });
  const entries = [...drops].toSorted(([a], [b]) => a - b).map(([trigger, ids]) => [`${trigger}`, [...ids].toSorted((a, b) => a - b)]);
  return { value: { drop_message: Object.fromEntries(entries) as AkvFields["drop_message"], reposition: [...repositions].toSorted((a, b) => a - b) }, losses };
}

/** Null, or what is lost. */
function writeOperation(log: Log, operation: Operation, drops: Map<number, Set<number>>, repositions: Set<number>): string | null {
  if (operation.kind === "replace") return "AKV cannot replace tokens";
  if (operation.kind === "edit") return "AKV cannot forget; edit the messages instead";
  if (operation.kind === "retain") return "retention is lost";
  const trigger = messageBefore(log, operation.at);
  if (trigger === null) return `AKV has no boundary before token ${operation.at}, which is inside a message`;
  if (operation.kind === "compact") {
    repositions.add(trigger);
    return null;
  }
  const ids = messagesOf(log, operation.ranges);
  if (ids === null) return "AKV drops whole messages only, not parts or token ranges";
  const known = drops.get(trigger) ?? new Set();
  drops.set(trigger, known);
  for (const id of ids) known.add(id);
  return null;
}

/** The message that ends at a boundary. */
function messageBefore({ chat }: Log, at: number): number | null {
  if (!chat || at === 0) return null;
  const message = chat.owners[at - 1]!;
  return message < chat.messages && chat.owners[at] !== message ? message : null;
}

/** The messages that some ranges are, or null where they cut one. */
function messagesOf({ chat }: Log, ranges: readonly Range[]): number[] | null {
  const ids: number[] = [];
  for (const [start, end] of ranges) {
    for (let token = start; token < end; ) {
      const message = chat!.owners[token]!;
      const [first, behind] = [firstOwnedFrom(chat!.owners, message), firstOwnedFrom(chat!.owners, message + 1)];
      if (first < start || behind > end) return null;
      ids.push(message);
      token = behind;
    }
  }
  return ids;
}
