import { eraseTexts, type EraseSet } from "@palimpsest/directives";
import { patternHash } from "@palimpsest/kvstore";
import type { Erasure } from "@palimpsest/radix";
import type { Erased } from "./types.ts";

/** Names what a forget of a log erases: the log's own text up to the end of the target, no other forget applied. */
export function pathOf(set: EraseSet): string {
  // The first text of a set is the one in which nothing else was forgotten.
  return patternHash(eraseTexts(set).next().value!);
}

/** What erasures did together. `zero` runs once the last reader has left. */
export function erasedOf(erasures: readonly Erasure[], paths: readonly string[], zero: () => void): Erased {
  let isComplete = erasures.every(({ readers }) => readers === 0);
  const end = async () => {
    await Promise.all(erasures.map(({ complete }) => complete));
    zero();
    isComplete = true;
  };
  return {
    time: new Date().toISOString(),
    paths,
    cells: erasures.reduce((sum, { cells }) => sum + cells, 0),
    readers: erasures.reduce((sum, { readers }) => sum + readers, 0),
    get isComplete() {
      return isComplete;
    },
    complete: end(),
  };
}
