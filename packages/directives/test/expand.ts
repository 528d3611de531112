import type { Fold } from "../src/types.ts";
import type { NaiveProgram } from "./naive-fold.ts";

type Expanded = [tokens: number[], kinds: NaiveProgram["kinds"], birthPositions: number[], reads: string[], visible: NaiveProgram["visible"]];

/** A fold spelled out cell by cell. A cell reads "cell@position …", in rising position. */
export function expand(fold: Fold): Expanded {
  const birthPositions: number[] = [];
  const kinds: NaiveProgram["kinds"] = [];
  const reads: string[] = [];
  for (const birth of fold.births) {
    const seen = birth.view.flatMap((span) => Array.from({ length: span.length }, (_, i) => `${span.cell + i}@${span.birth + i + span.shift}`));
    for (let i = 0; i < birth.length; i++) {
      if (birth.cell + i !== birthPositions.length) throw new Error(`births leave out or repeat cell ${birthPositions.length}`);
      birthPositions.push(birth.position + i);
      kinds.push(birth.kind);
      seen.push(`${birth.cell + i}@${birth.position + i}`);
      reads.push(seen.join(" "));
    }
  }
  const open = fold.births[fold.births.length - 1]!;
  const visible = open.view.flatMap((span) => Array.from({ length: span.length }, (_, i) => ({ cell: span.cell + i, position: span.birth + i + span.shift })));
  for (let i = 0; i < open.length; i++) visible.push({ cell: open.cell + i, position: open.position + i });
  return [[...fold.tokens], kinds, birthPositions, reads, visible];
}

/** What each cell of a naive program reads, in the same form. */
export function readsOf(program: NaiveProgram): string[] {
  return program.mask.map((row, cell) => {
    const stage = program.stagePositions[program.stageOf[cell]!]!;
    return row
      .flatMap((seen, other) => (seen ? [{ other, position: stage[other]! }] : []))
      .toSorted((a, b) => a.position - b.position)
      .map(({ other, position }) => `${other}@${position}`)
      .join(" ");
  });
}
