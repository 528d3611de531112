import { editLog, type Edited, type Task, taskOf } from "./edit.ts";
import { DirectiveError } from "./errors.ts";
import { eraseSets } from "./erase.ts";
import { type Checkpoint, type Counts, Folding, type FoldingOptions } from "./folding.ts";
import { compareRanges, type Group, groupByBoundary, sameGroup, tasksOf } from "./groups.ts";
import { lowerAll } from "./lower.ts";
import type { Lowered, Operation } from "./operations.ts";
import type { Registry } from "./registry.ts";
import { paramOf } from "./resolve.ts";
import type { Birth, CanonicalEvent, Directive, EraseSet, Fold, Log, Origin, Outcome, Retention } from "./types.ts";
import { standardRegistry } from "./verbs/index.ts";

export interface FoldOptions {
  /** The verbs that may occur. */
  registry?: Registry | undefined;
  /** "akv": a reposition that finds the survivors compact leaves the counter where it is. */
  compat?: "akv" | undefined;
  /**
   * Directives (by index) that an edit of the text does faster, as `planDirectives` finds them: their targets are taken out of the text
   * before it is folded, and what stands behind is prefilled again. Their outcomes say `recomputed`.
   */
  prefill?: ReadonlySet<number> | undefined;
  /** The fold of an earlier turn: boundaries that both have in common are not folded again. The result is the same without it. */
  previous?: Fold | undefined;
}

/**
 * The fold of a log: what its directives come to, by intervals. Resolves all of them in the log's own coordinates, then applies them
 * boundary by boundary; all stand, or a `DirectiveError` names the one that cannot and its field.
 */
export function fold(log: Log, directives: readonly Directive[], options: FoldOptions = {}): Fold {
  const lowered = lowerAll(options.registry ?? standardRegistry, log, directives);
  const prefill = options.prefill ?? NONE;
  const tasks = tasksOfAll(lowered, prefill);
  const edited = editLog(log, tasks);
  refuseEmptyLog(log, directives, edited);
  const groups = groupByBoundary(edited.tasks, rankOf(directives, lowered));
  const keepTailGap = options.compat === "akv";
  const param = (task: Task, field?: string) => paramOf(directives[task.index]!, task.index, field);
  const erase = eraseSets(log, tasks, (task) => param(task, "target"));
  const folding = new Folding({ tokens: edited.tokens, contextLength: log.contextLength, keepTailGap, param });
  const known = commonCheckpoints(options.previous, { tokens: edited.tokens, contextLength: log.contextLength, keepTailGap }, groups);
  for (const checkpoint of known) folding.resume(checkpoint);
  const checkpoints = [...known, ...groups.slice(known.length).map((group) => folding.apply(group))];
  return new TracedFold(folding, edited, { log, directives, lowered, checkpoints, erase, prefill, keepTailGap });
}

const NONE: ReadonlySet<number> = new Set();

function tasksOfAll(lowered: readonly Lowered[], prefill: ReadonlySet<number>): Task[] {
  return lowered.flatMap(({ operations }, index) => {
    const all = prefill.has(index) ? operations.flatMap(asEdits) : operations;
    return all.map((operation) => taskOf(index, operation));
  });
}

/** An operation as edits of the text. */
function asEdits(operation: Operation): Operation[] {
  const { kind, at } = operation;
  if (kind === "hide") return operation.ranges.map((target): Operation => ({ kind: "edit", at, target, tokens: new Int32Array(0), erases: false }));
  return kind === "replace" ? [{ kind: "edit", at, target: operation.target, tokens: operation.tokens, erases: false }] : [operation];
}

/** Compares tasks by their directives' names, then targets, and only then by their places in the array. */
function rankOf(directives: readonly Directive[], lowered: readonly Lowered[]): (a: Task, b: Task) => number {
  return (a, b) => {
    const [nameA, nameB] = [directives[a.index]!.op, directives[b.index]!.op];
    if (nameA !== nameB) return nameA < nameB ? -1 : 1;
    return compareRanges(lowered[a.index]!.ranges ?? [], lowered[b.index]!.ranges ?? []) || a.origin - b.origin || a.index - b.index;
  };
}

function refuseEmptyLog(log: Log, directives: readonly Directive[], { tokens, edits }: Edited): void {
  const last = edits[edits.length - 1];
  if (!last || tokens.length > 0 || log.tokens.length === 0) return;
  throw new DirectiveError("target_invalid", "This forget leaves no token of the log; leave something to answer to.", paramOf(directives[last.index]!, last.index, "target"));
}

/** What a fold must have in common with an earlier one up to a boundary. */
type Ground = Pick<FoldingOptions, "tokens" | "contextLength" | "keepTailGap">;

interface Trace {
  log: Log;
  directives: readonly Directive[];
  lowered: readonly Lowered[];
  checkpoints: readonly Checkpoint[];
  erase: readonly EraseSet[];
  prefill: ReadonlySet<number>;
  keepTailGap: boolean;
}

/** The checkpoints of an earlier fold that hold for this one too: same tokens and same groups up to them. */
function commonCheckpoints(previous: Fold | undefined, ground: Ground, groups: readonly Group[]): Checkpoint[] {
  const earlier = previous && TracedFold.groundOf(previous);
  if (!earlier || earlier.ground.keepTailGap !== ground.keepTailGap || earlier.ground.contextLength !== ground.contextLength) return [];
  let common = 0;
  let shared = 0;
  const [theirs, ours] = [earlier.ground.tokens, ground.tokens];
  for (; common < groups.length && common < earlier.checkpoints.length; common++) {
    const { group } = earlier.checkpoints[common]!;
    if (!sameGroup(group, groups[common]!)) break;
    while (shared < group.at && theirs[shared] === ours[shared]) shared++;
    if (shared < group.at) break;
  }
  return earlier.checkpoints.slice(0, common).map(({ counts, event }, i) => ({ group: groups[i]!, counts, event }));
}

/** A fold that remembers its way. */
class TracedFold implements Fold {
  readonly tokens: Int32Array;
  readonly events: readonly CanonicalEvent[];
  readonly births: readonly Birth[];
  readonly nextPosition: number;
  readonly visible: number;
  readonly stages: number;
  readonly lastCell: number;
  readonly outcomes: readonly Outcome[];
  readonly forgotten: number;
  readonly origins: readonly Origin[] | null;
  readonly retention: readonly Retention[];
  readonly erase: readonly EraseSet[];
  readonly behind: readonly number[];
  readonly #ground: Ground;
  readonly #checkpoints: readonly Checkpoint[];

  constructor(folding: Folding, edited: Edited, trace: Trace) {
    const { nextPosition, visible, cells } = folding.finish();
    this.tokens = folding.tokens(cells);
    this.events = folding.events;
    this.births = folding.births;
    this.nextPosition = nextPosition;
    this.visible = visible;
    this.stages = 1 + folding.events.length;
    this.lastCell = lastLogCell(folding.births);
    this.outcomes = outcomesOf(trace, edited);
    this.forgotten = edited.forgotten;
    this.origins = edited.origins;
    this.retention = trace.checkpoints.flatMap(retentionOf);
    this.erase = trace.erase;
    this.behind = behindOf(trace, edited);
    this.#ground = { tokens: edited.tokens, contextLength: trace.log.contextLength, keepTailGap: trace.keepTailGap };
    this.#checkpoints = trace.checkpoints;
  }

  static groundOf(other: Fold): { ground: Ground; checkpoints: readonly Checkpoint[] } | undefined {
    return #ground in other ? { ground: other.#ground, checkpoints: other.#checkpoints } : undefined;
  }
}

function lastLogCell(births: readonly Birth[]): number {
  const last = births.findLast(({ token, length }) => token >= 0 && length > 0);
  return last ? last.cell + last.length - 1 : -1;
}

function retentionOf({ group, counts }: Checkpoint): Retention[] {
  const first = counts.length - group.retains.length;
  return group.retains.flatMap(({ index, operation }, i) =>
    counts[first + i]!.retained!.map((cells): Retention => ({ cells, priority: operation.priority, seconds: operation.seconds, directive: index })),
  );
}

function outcomesOf({ directives, lowered, checkpoints, prefill }: Trace, { edits, lost }: Edited): Outcome[] {
  const outcomes = lowered.map((entry, index) => untouched(directives[index]!, index, entry, lost.has(index)));
  for (const { index, removed, inserted } of edits) {
    tell(outcomes[index]!, { hidden: removed, inserted, shifted: 0, delta: inserted - removed });
    outcomes[index]!.forgets = true;
  }
  for (const { group, counts } of checkpoints) tasksOf(group).forEach((task, i) => tell(outcomes[task.index]!, counts[i]!));
  for (const index of prefill) if (outcomes[index]?.status === "applied") Object.assign(outcomes[index], { status: "recomputed", reason: "text_edit_is_cheaper" });
  return outcomes;
}

function behindOf({ directives, checkpoints }: Trace, { edits }: Edited): number[] {
  const behind = directives.map(() => 0);
  for (const { index, behind: tokens } of edits) behind[index]! += tokens;
  for (const { group, counts } of checkpoints) tasksOf(group).forEach(({ index }, i) => (behind[index]! += counts[i]!.behind ?? 0));
  return behind;
}

/** The outcome before anything was applied: without effect, until a task of the directive has one. */
function untouched(directive: Directive, index: number, { at, ranges, reason }: Lowered, lost: boolean): Outcome {
  return {
    index,
    op: directive.op,
    ...(directive.source === undefined ? {} : { source: directive.source }),
    at_token: at,
    ...(ranges === undefined ? {} : { ranges, hidden: 0, inserted: 0, shifted: 0, delta: 0 }),
    status: "no_effect",
    reason: lost ? "forgotten" : (reason ?? (ranges === undefined ? "nothing_moves" : "already_hidden")),
  };
}

function tell(outcome: Outcome, counts: Counts): void {
  for (const name of ["hidden", "inserted", "shifted", "delta", "recomputed"] as const) {
    const count = counts[name];
    if (count !== undefined) outcome[name] = (outcome[name] ?? 0) + count;
    if (count) outcome.status = "applied";
  }
  if (counts.retained && counts.retained.length > 0) outcome.status = "applied";
  if (outcome.status === "applied") delete outcome.reason;
}
