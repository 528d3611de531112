import type { Range } from "./types.ts";

/** Ascending, without overlap, touching ranges joined, empty ones left out. */
export function mergeRanges(ranges: readonly Range[]): readonly Range[] {
  if (areMerged(ranges)) return ranges;
  const sorted = ranges.filter(([start, end]) => end > start).toSorted((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [start, end] of sorted) {
    const last = merged[merged.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

function areMerged(ranges: readonly Range[]): boolean {
  let reach = -1;
  for (const [start, end] of ranges) {
    if (start <= reach || end <= start) return false;
    reach = end;
  }
  return true;
}
