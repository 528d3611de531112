import { append, type Cells, compact, counterOf, hide, positionAfter, settleGhosts, viewOf, visibleOf } from "./cells.ts";
import { DirectiveError } from "./errors.ts";
import { canonicalEvent } from "./event.ts";
import type { CompactOperation, HideOperation, Lowered, Operation } from "./operations.ts";
import type { Registry } from "./registry.ts";
import { lowerContext, paramOf } from "./resolve.ts";
import type { Birth, CanonicalEvent, Directive, Fold, Log, Outcome, Range, Span } from "./types.ts";
import { standardRegistry } from "./verbs/index.ts";

export interface FoldOptions {
  /** The verbs that may occur. */
  registry?: Registry | undefined;
  /** "akv": a reposition that finds the survivors compact leaves the counter where it is. */
  compat?: "akv" | undefined;
}

/**
 * The fold of a log: what its directives come to, by intervals. Resolves all of them in the log's own coordinates, then applies them
 * boundary by boundary; all stand, or a `DirectiveError` names the one that cannot and its field.
 */
export function fold(log: Log, directives: readonly Directive[], options: FoldOptions = {}): Fold {
  const registry = options.registry ?? standardRegistry;
  const lowered = directives.map((directive, index) => lower(registry, log, directive, index));
  const folding = new Folding(log, directives, lowered, options.compat === "akv");
  for (const group of groupByBoundary(lowered)) folding.apply(group);
  return folding.finish();
}

function lower(registry: Registry, log: Log, directive: Directive, index: number): Lowered {
  const verb = registry.get(directive.op);
  if (!verb) throw new DirectiveError("directive_unknown", `No verb "${directive.op}" is known.`, paramOf(directive, index, "op"));
  return verb.lower(lowerContext(log, directive, index), directive);
}

/** An operation and the directive that it came from. */
interface Task<O extends Operation = Operation> {
  index: number;
  operation: O;
}

/** All tasks of one boundary, in the order in which they act. The order of the request's array has no part in it. */
interface Group {
  at: number;
  hides: Task<HideOperation>[];
  compacts: Task<CompactOperation>[];
}

function groupByBoundary(lowered: readonly Lowered[]): Group[] {
  const groups = new Map<number, Group>();
  lowered.forEach(({ operations }, index) => {
    for (const operation of operations) {
      const group = groups.get(operation.at) ?? { at: operation.at, hides: [], compacts: [] };
      groups.set(operation.at, group);
      if (operation.kind === "hide") group.hides.push({ index, operation });
      else group.compacts.push({ index, operation });
    }
  });
  const sorted = [...groups.values()].toSorted((a, b) => a.at - b.at);
  for (const group of sorted) group.hides.sort((a, b) => compareRanges(a.operation.ranges, b.operation.ranges) || a.index - b.index);
  return sorted;
}

/** Decides which of two drops counts the cells that both name, so that the report does not depend on the order of the array. */
function compareRanges(a: readonly Range[], b: readonly Range[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = a[i]![0] - b[i]![0] || a[i]![1] - b[i]![1];
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

class Folding {
  readonly #log: Log;
  readonly #directives: readonly Directive[];
  readonly #akv: boolean;
  readonly #outcomes: Outcome[];
  readonly #events: CanonicalEvent[] = [];
  readonly #births: Birth[] = [];
  #cells: Cells = { segments: [], tail: 0 };
  #open: { cell: number; length: number; position: number; token: number; cells: Cells } = { cell: 0, length: 0, position: 0, token: 0, cells: this.#cells };

  constructor(log: Log, directives: readonly Directive[], lowered: readonly Lowered[], akv: boolean) {
    this.#log = log;
    this.#directives = directives;
    this.#akv = akv;
    this.#outcomes = lowered.map((entry, index) => outcomeOf(directives[index]!, index, entry));
    this.#open.cells = this.#snapshot();
  }

  apply(group: Group): void {
    this.#bear(group.at);
    const before = this.#cells;
    const after = (this.#cells = this.#snapshot());
    for (const task of group.hides) this.#report(task, { hidden: hide(after, task.operation.ranges) });
    settleGhosts(after);
    group.compacts.forEach((task, i) => this.#report(task, i === 0 ? this.#compact(task) : { shifted: 0, delta: 0 }));
    const firstCell = this.#open.cell + this.#open.length;
    const event = canonicalEvent(group.at, { firstCell, before, seen: after, after, born: [] });
    if (!event) {
      this.#cells = before;
      return;
    }
    this.#events.push(event);
    this.#close();
    this.#open = { cell: firstCell, length: 0, position: counterOf(after), token: group.at, cells: this.#snapshot() };
  }

  finish(): Fold {
    this.#bear(this.#log.tokens.length);
    const nextPosition = counterOf(this.#cells);
    this.#close();
    return {
      tokens: this.#log.tokens,
      events: this.#events,
      births: this.#births,
      nextPosition,
      visible: visibleOf(this.#cells),
      stages: 1 + this.#events.length,
      lastCell: this.#log.tokens.length - 1,
      outcomes: this.#outcomes,
    };
  }

  #snapshot(): Cells {
    return { segments: this.#cells.segments.slice(), tail: this.#cells.tail };
  }

  /** Computes the log's tokens up to `token` in the stage that is open. */
  #bear(token: number): void {
    const open = this.#open;
    const born = open.token + open.length;
    append(this.#cells, open.cell + open.length, born, token - born, open.position + open.length);
    open.length = token - open.token;
    const { contextLength } = this.#log;
    if (open.length > 0 && open.position + open.length > contextLength) {
      throw new DirectiveError(
        "context_length_exceeded",
        `The log reaches position ${open.position + open.length - 1}, but the model's context has ${contextLength} positions; shorten it, or drop and reposition earlier.`,
      );
    }
  }

  #close(): void {
    const { cell, length, position, token, cells } = this.#open;
    let view: Span[] | undefined;
    this.#births.push({
      cell,
      length,
      position,
      token,
      get view() {
        return (view ??= viewOf(cells.segments, cells.segments.length));
      },
    });
  }

  #compact({ index, operation }: Task<CompactOperation>): { shifted: number; delta: number } {
    const cells = this.#cells;
    if (operation.refuseEmpty && cells.segments.length === 0) {
      throw new DirectiveError(
        "akv_invalid",
        "Nothing is visible at this reposition; expected at least one message that is not dropped.",
        paramOf(this.#directives[index]!, index),
      );
    }
    if (this.#akv && positionAfter(cells.segments, cells.segments.length) === visibleOf(cells)) return { shifted: 0, delta: 0 };
    return compact(cells);
  }

  #report(task: Task, counts: { hidden?: number; shifted?: number; delta?: number }): void {
    const outcome = this.#outcomes[task.index]!;
    outcome.hidden = add(outcome.hidden, counts.hidden);
    outcome.shifted = add(outcome.shifted, counts.shifted);
    outcome.delta = add(outcome.delta, counts.delta);
    if (!counts.hidden && !counts.shifted && !counts.delta) return;
    outcome.status = "applied";
    delete outcome.reason;
  }
}

function add(sum: number | undefined, count: number | undefined): number | undefined {
  return count === undefined ? sum : (sum ?? 0) + count;
}

/** The outcome before anything was applied: without effect, until a task of the directive has one. */
function outcomeOf(directive: Directive, index: number, { at, ranges, reason }: Lowered): Outcome {
  return {
    index,
    op: directive.op,
    ...(directive.source === undefined ? {} : { source: directive.source }),
    at_token: at,
    ...(ranges === undefined ? {} : { ranges, hidden: 0, inserted: 0, shifted: 0, delta: 0 }),
    status: "no_effect",
    reason: reason ?? (ranges === undefined ? "nothing_moves" : "already_hidden"),
  };
}
