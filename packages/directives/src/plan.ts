import type { Fold, Outcome } from "./types.ts";

/** Measured speeds of the server that would run the request. */
export interface Rates {
  prefillTokensPerSecond: number;
  /** Fixed cost of a forward step. */
  stepSeconds: number;
  /** What one more run with a shift of its own costs each row that reads it. */
  runSecondsPerRow?: number | undefined;
}

export interface PlanInput {
  /** Cells that the request would compute, from what is resident now. */
  computed: number;
  /** Forward steps that it would take. */
  steps: number;
  /** Cells of the log's path that are known already: edits before them were paid for by an earlier turn. */
  known?: number | undefined;
  /** Rows that would be computed afterwards: they read what the directives left. */
  rowsAhead?: number | undefined;
  rates?: Rates | undefined;
}

export interface Cost {
  tokens: number;
  steps: number;
  /** Only where rates are known. */
  seconds?: number;
}

export interface DirectivePlan extends Outcome {
  cost: Cost;
  /** The same by editing the text: what stands behind the edit is prefilled again. */
  text_edit: Cost;
  cheaper: "directive" | "text_edit";
}

export interface Plan {
  directives: readonly DirectivePlan[];
  cost: Cost;
  text_edit: Cost;
  /** Directives that an edit of the text would do faster. */
  slower: readonly number[];
}

/**
 * What each directive of a fold would do and cost, beside the cost of doing it by editing the text. Without rates the tokens to compute
 * decide; with rates the seconds, in which a run of its own that many later rows must read can outweigh a short prefill.
 */
export function planDirectives(folded: Fold, input: PlanInput): Plan {
  const directives = folded.outcomes.map((outcome, i) => planOf(outcome, folded.behind[i]!, input));
  return {
    directives,
    cost: costOf(input.computed, input.steps, input.rates),
    text_edit: costOf(textEditTokens(folded, input), input.steps, input.rates),
    slower: directives.filter(({ cheaper }) => cheaper === "text_edit").map(({ index }) => index),
  };
}

function planOf(outcome: Outcome, behind: number, { rates, rowsAhead = 0 }: PlanInput): DirectivePlan {
  const { hidden = 0, inserted = 0, recomputed = 0 } = outcome;
  const edits = outcome.status !== "no_effect" && (hidden > 0 || inserted > 0);
  // What is forgotten leaves no trace, so everything behind it is computed again either way.
  const own = outcome.forgets ? inserted + behind : inserted + recomputed;
  const cost = costOf(own, own > 0 ? 1 : 0, rates);
  const edit = costOf(edits ? inserted + behind : 0, edits && inserted + behind > 0 ? 1 : 0, rates);
  if (cost.seconds !== undefined && edits && !outcome.forgets) cost.seconds += rowsAhead * (rates!.runSecondsPerRow ?? 0);
  const slower = cost.seconds === undefined ? cost.tokens > edit.tokens : cost.seconds > edit.seconds!;
  return { ...outcome, cost, text_edit: edit, cheaper: slower && edits ? "text_edit" : "directive" };
}

function costOf(tokens: number, steps: number, rates: Rates | undefined): Cost {
  if (!rates) return { tokens, steps };
  return { tokens, steps, seconds: tokens / rates.prefillTokensPerSecond + steps * rates.stepSeconds };
}

/** Visible cells behind the first edit that was not paid for yet, or behind what is known. */
function textEditTokens({ events, births }: Fold, { known = 0, computed }: PlanInput): number {
  const fresh = events.filter(({ cell }) => cell >= known);
  const first = Math.min(known, ...fresh.flatMap(({ hidden, inserted }) => [...hidden.map(([start]) => start), ...inserted.map(({ before, cells }) => (before < 0 ? cells[0] : before))]));
  const open = births[births.length - 1]!;
  const behind = open.view.reduce((sum, { cell, length }) => sum + Math.max(0, cell + length - Math.max(cell, first)), open.length);
  return fresh.length === 0 ? computed : behind;
}
