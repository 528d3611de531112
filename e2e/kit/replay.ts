import type { Directive, Log } from "@palimpsest/directives";
import { naiveReplay } from "@palimpsest/kernels-cuda";
import { naiveFold, type NaiveProgram } from "../../packages/directives/test/naive-fold.ts";

/** Logits by an independent computation, of the rows that an engine was asked for. */
export interface Replayed {
  /** Of the row before a token of the request's log; null where there is none. */
  scored(token: number): Float32Array | null;
  /** Of the row from which a token of the answer is drawn. */
  draw(index: number): Float32Array;
}

/**
 * Replays a log and its answer naively: the program comes from the words of the documentation (`naiveFold`), the numbers from a
 * computation in f32 that knows neither pages nor runs nor shifts.
 */
export async function replayed(path: string, log: Log, directives: readonly Directive[], answer: readonly number[], threads = 1): Promise<Replayed> {
  const program = naiveFold(log, directives);
  const cells = program.tokens.length;
  const drawn = answer.slice(0, -1);
  const wanted = Uint32Array.from({ length: cells + drawn.length }, (_, row) => row);
  const logits = await naiveReplay(path, { ...withAnswer(program, drawn), wanted, threads });
  const size = logits.length / wanted.length;
  const row = (cell: number) => logits.subarray(cell * size, (cell + 1) * size);
  const logCells = program.kinds.flatMap((kind, cell) => (kind === "log" ? [cell] : []));
  return {
    scored: (token) => {
      const at = program.raw.indexOf(token);
      return at <= 0 ? null : row(logCells[at - 1]!);
    },
    draw: (index) => row(index === 0 ? program.lastCell : cells + index - 1),
  };
}

/** The arrays of a replay, with the tokens of an answer as cells of one more stage. */
function withAnswer(program: NaiveProgram, drawn: readonly number[]) {
  const { tokens, birthPositions, stageOf, stagePositions, mask, visible, nextPosition } = program;
  const cells = tokens.length;
  const n = cells + drawn.length;
  const stages = [...stagePositions, Array.from({ length: cells }, () => -1)];
  for (const { cell, position } of visible) stages.at(-1)![cell] = position;
  const positions = Int32Array.from({ length: stages.length * n }, () => -1);
  stages.forEach((stage, s) => positions.set(stage, s * n));
  const seen = new Uint8Array(n * n);
  mask.forEach((row, cell) => row.forEach((reads, other) => reads && (seen[cell * n + other] = 1)));
  drawn.forEach((_, i) => {
    const row = cells + i;
    for (const { cell } of visible) seen[row * n + cell] = 1;
    for (let j = 0; j <= i; j++) seen[row * n + cells + j] = 1;
    positions[(stages.length - 1) * n + row] = nextPosition + i;
  });
  return {
    tokens: Uint32Array.from([...tokens, ...drawn]),
    positions: Int32Array.from([...birthPositions, ...drawn.map((_, i) => nextPosition + i)]),
    stageOf: Uint32Array.from([...stageOf, ...drawn.map(() => stages.length - 1)]),
    stagePositions: positions,
    seen,
  };
}

export function largestDifference(a: Float32Array, b: Float32Array): number {
  let largest = 0;
  // NaN is no agreement.
  for (let i = 0; i < a.length; i++) largest = Math.abs(a[i]! - b[i]!) <= largest ? largest : Math.abs(a[i]! - b[i]!);
  return Number.isNaN(largest) || a.length !== b.length ? Infinity : largest;
}
