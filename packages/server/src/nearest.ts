/** Restricted Damerau-Levenshtein distance: insertions, deletions, substitutions and swaps of neighbours each cost 1. */
export function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(substitution, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, (beforePrevious[j - 2] ?? 0) + 1);
      row.push(best);
    }
    beforePrevious = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}

/** The candidate with the smallest distance to `word`, the first among equals. Null when there is none, or none within `limit`. */
export function nearest(word: string, candidates: Iterable<string>, limit = Number.POSITIVE_INFINITY): string | null {
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * The candidate that somebody who wrote `word` may have meant: one with few letters wrong, a third at most, or one that contains the word
 * or is contained in it. Null where a guess would be a poor one.
 */
export function likely(word: string, candidates: Iterable<string>): string | null {
  const list = [...candidates];
  const close = nearest(word, list, Math.max(1, Math.floor(word.length / 3)));
  if (close !== null || word.length < 3) return close;
  return nearest(word, list.filter((candidate) => candidate.includes(word) || (candidate.length >= 3 && word.includes(candidate))));
}
