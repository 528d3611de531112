import { DirectiveError, planDirectives, type Outcome, type Plan, type Rates } from "@palimpsest/directives";
import type { GenerateRequest, Report } from "@palimpsest/engine";
import type { Service } from "../service.ts";
import type { Folded } from "./prepare.ts";

/** What a request would cost from what is cached now. */
export interface Price {
  computed_tokens: number;
  forward_steps: number;
  /** Null until this server has measured its speed. */
  seconds: number | null;
}

/** Measured speeds of this server, where it has any. */
export function ratesOf({ engine }: Pick<Service, "engine">): Rates | undefined {
  const { prefillTokensPerSecond, decodeStepSeconds } = engine.state().rates;
  return prefillTokensPerSecond === null ? undefined : { prefillTokensPerSecond, stepSeconds: decodeStepSeconds ?? 0 };
}

export function priceOf({ computed_tokens, forward_steps }: Report, rates: Rates | undefined): Price {
  const seconds = rates === undefined ? null : computed_tokens / rates.prefillTokensPerSecond + forward_steps * rates.stepSeconds;
  return { computed_tokens, forward_steps, seconds };
}

/**
 * Each directive beside the edit of the text that it saves, and the request beside the same request with all edits of the text that are
 * new to the cache. What an earlier turn paid for is not paid again.
 */
export function compare(service: Service, generate: GenerateRequest, folded: Folded, report: Report): { plan: Plan; price: Price; textEdit: Price } {
  const rates = ratesOf(service);
  const plan = planDirectives(folded.fold, { computed: report.computed_tokens, steps: report.forward_steps, rates, rowsAhead: generate.maxTokens });
  const known = report.miss === null || report.miss.reason === "evicted" ? Infinity : report.miss.at_token;
  const fresh = editing(folded.fold.outcomes).filter(({ at_token: at }) => at >= known);
  const textEdit = predicted(service, generate, folded, fresh.map(({ index }) => index))?.report ?? report;
  return { plan, price: priceOf(report, rates), textEdit: priceOf(textEdit, rates) };
}

/** Directives that are tried one by one; of more, the last: they are the new ones. */
const TRIED_MAX = 16;

/**
 * The fold that costs least: each directive carried out on the cache, or by prefilling the edited text, whichever is faster from what is
 * cached now. Of ways that cost the same the one with fewer edits of the text is taken.
 */
export function cheapest(service: Service, generate: GenerateRequest, folded: Folded): Folded {
  const rates = ratesOf(service);
  const all = editing(folded.fold.outcomes).map(({ index }) => index);
  const costOf = (prefill: readonly number[]) => {
    const found = predicted(service, generate, folded, prefill);
    if (found === null) return null;
    const { seconds, computed_tokens: tokens } = priceOf(found.report, rates);
    return { prefill, fold: found.fold, cost: seconds ?? tokens };
  };
  let best = costOf([])!;
  const consider = (prefill: readonly number[]) => {
    const other = costOf(prefill);
    if (other !== null && (other.cost < best.cost || (other.cost === best.cost && prefill.length < best.prefill.length))) best = other;
  };
  if (all.length > 0) consider(all);
  if (all.length > 1) {
    for (const index of all.slice(-TRIED_MAX)) consider(best.prefill.includes(index) ? best.prefill.filter((other) => other !== index) : [...best.prefill, index]);
  }
  return { ...folded, fold: best.fold };
}

/** Directives that change the text that is seen, and leave a way to carry them out: a forget is an edit of the text already. */
function editing(outcomes: readonly Outcome[]): Outcome[] {
  return outcomes.filter(({ status, hidden = 0, inserted = 0, forgets }) => status !== "no_effect" && forgets !== true && hidden + inserted > 0);
}

/** The fold with some directives carried out by editing the text, and what it would compute. Null where that leaves nothing to answer to. */
function predicted(service: Service, generate: GenerateRequest, folded: Folded, prefill: readonly number[]): { fold: Folded["fold"]; report: Report } | null {
  try {
    const fold = prefill.length === 0 ? folded.fold : folded.refold(new Set(prefill));
    return { fold, report: service.engine.plan({ ...generate, fold }) };
  } catch (error) {
    if (error instanceof DirectiveError) return null;
    throw error;
  }
}
