import type { Directive, Log } from "@palimpsest/directives";
import { naiveFold, type NaiveProgram } from "../../../directives/test/naive-fold.ts";
import { logProbabilities, mix } from "./scripted-runtime.ts";

export interface Expected {
  tokens: number[];
  logprobs: number[];
  /** By log token: its log-probability in the row before it, null for the first. */
  scores: (number | null)[];
}

/** What the scripted model answers to a log, from the naive fold, cell by cell: no runs, no shifts, no pages. */
export function expectedAnswer(log: Log, directives: readonly Directive[], maxTokens: number, vocabularySize: number): Expected {
  const program = naiveFold(log, directives);
  const prints = promptPrints(program);
  const seen = program.visible.map(({ cell, position }) => ({ print: prints[cell]!, position }));
  const tokens: number[] = [];
  const logprobs: number[] = [];
  let print = prints[program.lastCell]!;
  for (let i = 0; i < maxTokens; i++) {
    const table = logProbabilities(print, vocabularySize);
    const best = table.indexOf(Math.max(...table));
    tokens.push(best);
    logprobs.push(Math.fround(table[best]!));
    const position = program.nextPosition + i;
    print = rowPrint(best, position, seen);
    seen.push({ print, position });
  }
  return { tokens, logprobs, scores: scoresOf(log, program, prints, vocabularySize) };
}

/** A token of the request's log has the score that the cell before it in the edited log gives it, as first computed. */
function scoresOf(log: Log, { tokens, kinds, raw }: NaiveProgram, prints: readonly number[], vocabularySize: number): (number | null)[] {
  const scores: (number | null)[] = Array.from(log.tokens, () => null);
  const cells = kinds.flatMap((kind, cell) => (kind === "log" ? [cell] : []));
  cells.forEach((cell, token) => {
    if (token === 0 || raw[token]! < 0) return;
    scores[raw[token]!] = Math.fround(logProbabilities(prints[cells[token - 1]!]!, vocabularySize)[tokens[cell]!]!);
  });
  return scores;
}

function promptPrints({ tokens, birthPositions, stageOf, stagePositions, mask }: NaiveProgram): number[] {
  const prints: number[] = [];
  tokens.forEach((token, cell) => {
    const stage = stagePositions[stageOf[cell]!]!;
    const seen = mask[cell]!.flatMap((reads, other) => (reads && other !== cell ? [{ print: prints[other]!, position: stage[other]! }] : []));
    prints.push(rowPrint(token, birthPositions[cell]!, seen.toSorted((a, b) => a.position - b.position)));
  });
  return prints;
}

function rowPrint(token: number, position: number, seen: readonly { print: number; position: number }[]): number {
  return seen.reduce((print, other) => mix(mix(print, other.print), position - other.position), mix(17, token));
}
