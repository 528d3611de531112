import type { Task } from "./edit.ts";
import type { CompactOperation, HideOperation, Operation, ReplaceOperation, RetainOperation } from "./operations.ts";
import type { Range } from "./types.ts";

/**
 * All tasks of one boundary, each list in the order in which it acts: drops, then splices from left to right, then their refreshes, then
 * reposition, then retention. The order of the request's array has no part in it, other than between directives that are alike.
 */
export interface Group {
  at: number;
  hides: Task<HideOperation>[];
  replaces: Task<ReplaceOperation>[];
  /** Those of `replaces` that compute cells again, by index. */
  refreshes: number[];
  compacts: Task<CompactOperation>[];
  retains: Task<RetainOperation>[];
}

/**
 * Groups in ascending order of boundary. `rank` compares directives by what they are: it decides which of two like tasks counts what
 * both do, so that the report does not depend on the order of the array.
 */
export function groupByBoundary(tasks: readonly Task[], rank: (a: Task, b: Task) => number): Group[] {
  const groups = new Map<number, Group>();
  for (const task of tasks) {
    const { at } = task.operation;
    let group = groups.get(at);
    if (!group) groups.set(at, (group = { at, hides: [], replaces: [], refreshes: [], compacts: [], retains: [] }));
    put(group, task);
  }
  const sorted = [...groups.values()].toSorted((a, b) => a.at - b.at);
  for (const group of sorted) {
    if (group.hides.length > 1) group.hides.sort((a, b) => compareRanges(a.operation.ranges, b.operation.ranges) || rank(a, b));
    if (group.compacts.length > 1) group.compacts.sort(rank);
    if (group.replaces.length === 0) continue;
    group.replaces.sort(byTurn);
    group.refreshes = refreshesOf(group.replaces);
  }
  return sorted;
}

function refreshesOf(replaces: readonly Task<ReplaceOperation>[]): number[] {
  const refreshing = [...replaces.keys()].filter((i) => replaces[i]!.operation.refresh > 0);
  return refreshing.toSorted((a, b) => byPlace(replaces[a]!, replaces[b]!));
}

function put(group: Group, task: Task): void {
  switch (task.operation.kind) {
    case "hide":
      group.hides.push(task as Task<HideOperation>);
      break;
    case "replace":
      group.replaces.push(task as Task<ReplaceOperation>);
      break;
    case "compact":
      group.compacts.push(task as Task<CompactOperation>);
      break;
    case "retain":
      group.retains.push(task as Task<RetainOperation>);
      break;
    case "edit":
      break;
  }
}

/** Lexicographic. */
export function compareRanges(a: readonly Range[], b: readonly Range[]): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = a[i]![0] - b[i]![0] || a[i]![1] - b[i]![1];
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/**
 * From left to right. Targets of one boundary never meet, but a forget may join boundaries, or take out what lay between two targets.
 * Then an earlier boundary goes before a later one, and of one boundary the right one first: the newer stands in front.
 */
function byTurn(a: Task<ReplaceOperation>, b: Task<ReplaceOperation>): number {
  return a.origin - b.origin || a.operation.target[0] - b.operation.target[0] || b.left - a.left || a.index - b.index;
}

function byPlace(a: Task<ReplaceOperation>, b: Task<ReplaceOperation>): number {
  return a.operation.target[0] - b.operation.target[0] || a.left - b.left || a.origin - b.origin || a.index - b.index;
}

export function compareTargets(a: Range, b: Range): number {
  return a[0] - b[0] || a[1] - b[1];
}

/** Index of the first target (of sorted ones) that overlaps one before it or starts at its place; −1 where none does. */
export function firstMeeting(targets: readonly Range[]): number {
  let start = -1;
  let reach = -1;
  for (let i = 0; i < targets.length; i++) {
    const target = targets[i]!;
    if (target[0] === start || target[0] < reach) return i;
    start = target[0];
    reach = Math.max(reach, target[1]);
  }
  return -1;
}

/** Whether two groups ask for the same, whatever directives they came from. */
export function sameGroup(a: Group, b: Group): boolean {
  if (a.at !== b.at) return false;
  const [left, right] = [tasksOf(a), tasksOf(b)];
  return left.length === right.length && left.every(({ operation }, i) => sameOperation(operation, right[i]!.operation));
}

export function tasksOf(group: Group): readonly Task[] {
  return (group.hides as Task[]).concat(group.replaces, group.compacts, group.retains);
}

function sameOperation(a: Operation, b: Operation): boolean {
  if (a.kind === "hide" && b.kind === "hide") return sameRanges(a.ranges, b.ranges);
  if (a.kind === "compact" && b.kind === "compact") return !a.refuseEmpty === !b.refuseEmpty;
  if (a.kind === "retain" && b.kind === "retain") return a.priority === b.priority && a.seconds === b.seconds && sameRanges(a.ranges, b.ranges);
  if (a.kind === "replace" && b.kind === "replace") return a.refresh === b.refresh && sameRanges([a.target], [b.target]) && sameTokens(a.tokens, b.tokens);
  return false;
}

function sameRanges(a: readonly Range[], b: readonly Range[]): boolean {
  return a.length === b.length && a.every(([start, end], i) => start === b[i]![0] && end === b[i]![1]);
}

export function sameTokens(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
