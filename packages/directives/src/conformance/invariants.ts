import type { Fold, Log } from "../types.ts";

/** What holds for every fold, whatever the verbs. Throws where it does not. */
export function checkFold(log: Log, folded: Fold): void {
  checkBirths(log, folded);
  checkEvents(folded);
  const written = (folded.origins ?? []).reduce((sum, { raw, length }) => sum + (raw < 0 ? length : 0), 0);
  const added = folded.births.reduce((sum, { kind, length }) => sum + (kind === "log" ? 0 : length), 0);
  equal(folded.tokens.length, log.tokens.length - folded.forgotten + written + added, "number of cells");
}

function checkBirths(log: Log, { births, tokens, nextPosition, visible }: Fold): void {
  let cell = 0;
  for (const birth of births) {
    equal(birth.cell, cell, "first cell of a birth");
    let position = 0;
    for (const { cell: seen, length, birth: born, shift } of birth.view) {
      require(seen >= 0 && seen + length <= birth.cell, "a view names only cells that were born before");
      require(born + shift >= position, "positions of visible cells rise");
      position = born + shift + length;
    }
    require(birth.position >= position, "a cell is born behind all that it sees");
    require(birth.position + birth.length <= log.contextLength, "positions lie below the context's length");
    cell += birth.length;
  }
  equal(cell, tokens.length, "cells of all births");
  const open = births[births.length - 1]!;
  equal(open.position + open.length, nextPosition, "position behind the open stage");
  equal(open.view.reduce((sum, { length }) => sum + length, open.length), visible, "visible cells");
}

function checkEvents({ events, tokens, stages }: Fold): void {
  equal(stages, events.length + 1, "stages");
  let at = -1;
  for (const event of events) {
    require(event.at > at, "events rise");
    require(event.key !== "", "an event has an effect");
    require(event.cell <= tokens.length, "an event stands before a cell of the log, or behind all");
    at = event.at;
  }
}

function equal(actual: number, expected: number, what: string): void {
  if (actual !== expected) throw new Error(`${what}: expected ${expected}, got ${actual}`);
}

function require(condition: boolean, what: string): void {
  if (!condition) throw new Error(`does not hold: ${what}`);
}
