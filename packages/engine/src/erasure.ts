import { advanceErase, bornCellsOf, type EraseChoice, type EraseSet, eraseTexts, type EraseWalk, startErase } from "@palimpsest/directives";
import { patternHash } from "@palimpsest/kvstore";
import type { Cells, Path } from "@palimpsest/radix";
import type { Erasing } from "./cache.ts";
import type { Erased } from "./types.ts";

/** Names what a forget of a log erases: the log's own text up to the end of the target, no other forget applied. */
export function pathOf(set: EraseSet): string {
  // The first text of a set is the one in which nothing else was forgotten.
  return patternHash(eraseTexts(set).next().value!);
}

/** What erasures did together. `last` runs once the last reader has left. */
export function erasedOf(erasings: readonly Erasing[], paths: readonly string[], last: () => void): Erased {
  const erasures = erasings.map(({ erasure }) => erasure);
  const tiers: Record<string, number> = {};
  const unreachable: Record<string, number> = {};
  let isComplete = false;
  const end = async () => {
    for (const receipt of await Promise.all(erasings.map(({ complete }) => complete))) {
      for (const [tier, cells] of Object.entries(receipt?.cells ?? {})) tiers[tier] = (tiers[tier] ?? 0) + cells;
      // What one of them could not reach, the later ones name again.
      for (const { tier, keys } of receipt?.unreachable ?? []) unreachable[tier] = Math.max(unreachable[tier] ?? 0, keys.length);
    }
    last();
    isComplete = true;
  };
  const complete = end();
  // A forget in a log has nobody who waits for it.
  complete.catch(() => undefined);
  return {
    time: new Date().toISOString(),
    paths,
    cells: erasures.reduce((sum, { cells }) => sum + cells, 0),
    tiers,
    unreachable,
    readers: erasures.reduce((sum, { readers }) => sum + readers, 0),
    get isComplete() {
      return isComplete;
    },
    complete,
  };
}

/** Who knows histories: the tree, and the archive of those that left it. */
export interface Histories {
  follow<T>(namespace: string, begin: T, step: (way: T, cells: Cells) => T | null): void;
}

/** So many forms of one text are searched for one by one. */
const FORMS_MAX = 1024;

/**
 * The texts that a forget must erase, each up to the end of its target. There may be more of them than can be listed: what was inserted
 * or edited in front may have been there or not, in every combination. Then those are found that histories have.
 */
export function textsToErase(set: EraseSet, histories: readonly Histories[], namespace: string, running: readonly Path[], formsMax = FORMS_MAX): EraseChoice[] {
  const forms = set.together.reduce((product, choices) => product * choices.length, 1);
  if (forms <= formsMax) return [...eraseTexts({ path: set.together })];
  const search = new TextSearch(set);
  for (const known of histories) known.follow(namespace, search.begin, (way, cells) => search.step(way, cells));
  for (const path of running) search.path(path);
  return search.texts;
}

/** How far a history was followed: its tokens from the last on backwards, and cells to come that an event owns. */
interface Way {
  walk: EraseWalk;
  length: number;
  stretch: { tokens: Int32Array; before: Way["stretch"] } | null;
  owned: number;
}

/** Follows histories through a set, and keeps what of its texts they have. */
class TextSearch {
  readonly begin: Way;
  readonly #path: Pick<EraseSet, "path">;
  readonly #texts = new Map<string, EraseChoice>();

  constructor({ together }: EraseSet) {
    this.#path = { path: together };
    this.begin = { walk: startErase(this.#path), length: 0, stretch: null, owned: 0 };
  }

  get texts(): EraseChoice[] {
    return [...this.#texts.values()];
  }

  path({ tokens, events }: Path): void {
    let way: Way | null = this.begin;
    for (let start = 0, i = 0; way !== null && start < tokens.length; ) {
      const event = events[i]?.at === start ? events[i++]!.key : null;
      const end = Math.min(events[i]?.at ?? tokens.length, tokens.length);
      way = this.step(way, { event, tokens, offset: start, length: end - start, start });
      start = end;
    }
  }

  /** The way behind some cells; null where it leaves the set or has the whole text. */
  step(way: Way, { event, tokens, offset, length }: Cells): Way | null {
    const owned = way.owned + (event === null ? 0 : bornCellsOf(event));
    const first = Math.min(owned, length);
    let walk = way.walk;
    let at = first;
    while (at < length && walk.found < 0 && walk.threads.length > 0) {
      walk = advanceErase(this.#path, walk, tokens[offset + at]!, way.length + at - first);
      at++;
    }
    const stretch = at === first ? way.stretch : { tokens: tokens.subarray(offset + first, offset + at), before: way.stretch };
    const next: Way = { walk, length: way.length + at - first, stretch, owned: owned - first };
    // Who ends within the text, or goes on otherwise from there, has cells of it too.
    const from = walk.found >= 0 ? walk.found : Math.min(...walk.threads.map(({ since }) => (since < 0 ? Infinity : since)));
    if (from !== Infinity) this.#keep(next, from);
    return walk.found < 0 && walk.threads.length > 0 ? next : null;
  }

  #keep({ length, stretch }: Way, from: number): void {
    const tokens = new Int32Array(length);
    let end = length;
    for (let part = stretch; part !== null; part = part.before) tokens.set(part.tokens, (end -= part.tokens.length));
    this.#texts.set(`${from}:${tokens.join()}`, { tokens, from });
  }
}
