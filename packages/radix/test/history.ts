import type { Path, PathEvent } from "../src/index.ts";

/** An edit in front of token `at`: hides the tokens of a range, then, if asked, gives what is visible the positions 0, 1, 2 … */
export interface Edit {
  at: number;
  drop?: readonly [from: number, to: number];
  reposition?: boolean;
}

/** A log carried out token by token, in the most literal way. */
export interface History {
  /** The path of @palimpsest/radix: an event is what an edit does. An edit without effect is none. */
  path: Path;
  /** What AKV keys a token by: the events in front of it, its id, and the position at which it stands *in the end*. */
  akv: string[];
  /** What each cell was computed with: every visible cell, and how far away it was. */
  fingerprints: string[];
}

export function history(tokens: readonly number[], edits: readonly Edit[]): History {
  const events: PathEvent[] = [];
  const fingerprints: string[] = [];
  const akvEvents = new Map<number, string>();
  const positions: number[] = [];
  const akvPositions: number[] = [];
  const hidden = new Set<number>();
  let counter = 0;
  let akvCounter = 0;
  for (let at = 0; at <= tokens.length; at++) {
    const here = edits.filter((edit) => edit.at === at);
    const newlyHidden: number[] = [];
    for (const { drop } of here) {
      for (let i = drop?.[0] ?? 0; i < (drop?.[1] ?? 0); i++) {
        if (hidden.has(i)) continue;
        hidden.add(i);
        newlyHidden.push(i);
      }
    }
    const visible = positions.map((_, i) => i).filter((i) => !hidden.has(i));
    const shifts: string[] = [];
    let akv = newlyHidden.length > 0 ? `Δ${newlyHidden}` : "";
    if (here.some((edit) => edit.reposition)) {
      visible.forEach((i, rank) => {
        if (positions[i] !== rank) shifts.push(`${i}:${rank - positions[i]!}`);
        positions[i] = rank;
      });
      if (counter !== visible.length) shifts.push(`counter:${visible.length - counter}`);
      counter = visible.length;
      if (visible.some((i, rank) => akvPositions[i] !== rank)) {
        visible.forEach((i, rank) => (akvPositions[i] = rank));
        akvCounter = visible.length;
        akv += `R${at - 1}`;
      }
    }
    if (newlyHidden.length > 0 || shifts.length > 0) events.push({ at, key: `hide ${newlyHidden} shift ${shifts}` });
    if (akv !== "") akvEvents.set(at, akv);
    if (at === tokens.length) break;
    fingerprints.push(`${tokens[at]} sees ${visible.map((i) => `${i}=${tokens[i]}@-${counter - positions[i]!}`)}`);
    positions.push(counter++);
    akvPositions.push(akvCounter++);
  }
  const akv = tokens.map((token, i) => `${akvEvents.get(i) ?? ""}${token}@${akvPositions[i]}`);
  return { path: { tokens: Int32Array.from(tokens), events }, akv, fingerprints };
}

/** Cells that AKV shares between two logs without a copy: its exact match. */
export function akvShared(one: History, other: History): number {
  let shared = 0;
  while (shared < one.akv.length && one.akv[shared] === other.akv[shared]) shared++;
  return shared;
}
