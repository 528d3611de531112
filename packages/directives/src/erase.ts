import type { Edited } from "./edit.ts";
import type { Lowered } from "./operations.ts";
import type { EraseSet, Log } from "./types.ts";

export function eraseSets(_log: Log, _lowered: readonly Lowered[], _edited: Edited): EraseSet[] {
  return [];
}
