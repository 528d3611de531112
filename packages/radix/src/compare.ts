import { sharedCells } from "./pattern.ts";
import type { Difference, Path } from "./types.ts";

/**
 * Where two paths part: the first cell that differs, in its token or in the event in front of it. Null: one begins with the other. For
 * people who wonder why the second of two requests did not find what the first had left.
 */
export function compare(path: Path, other: Path): Difference | null {
  const cell = sharedCells(path, other);
  if (cell >= Math.min(path.tokens.length, other.tokens.length)) return null;
  const unit = (of: Path) => ({ event: of.events.find((event) => event.at === cell)?.key ?? null, token: of.tokens[cell]! });
  return { cell, known: unit(path), asked: unit(other) };
}
