import { editLog, type Task, taskOf } from "./edit.ts";
import { DirectiveError } from "./errors.ts";
import { compareTargets } from "./groups.ts";
import { LIMITS } from "./limits.ts";
import type { EditOperation, HideOperation } from "./operations.ts";
import type { EraseChoice, EraseSet, Log, Range } from "./types.ts";

type Forget = Task<EditOperation>;

/** Forgets whose targets touch the same tokens: one applied or not changes what is left of the others. */
interface Cluster {
  start: number;
  end: number;
  forgets: Forget[];
}

/**
 * What each forget of a log must erase: the histories whose raw tokens begin with the log's up to the target's end, where each other
 * forget of the log may have been applied or not. Forgets that do not touch one another are independent, so the set is a path of
 * choices and not a list of all combinations.
 */
export function eraseSets(log: Log, tasks: readonly Task[], param: (task: Task) => string): EraseSet[] {
  const forgets = tasks.filter((task): task is Forget => task.operation.kind === "edit");
  const clusters = clustersOf(forgets, param);
  const all = commonPath(log, clusters, () => false);
  const together = commonPath(log, clusters, erasesText);
  const sets = clusters.flatMap((cluster, i) =>
    cluster.forgets.filter(erasesText).map((forget) => new LazyEraseSet(log, cluster, forget, { all: () => all(i), together: () => together(i) })),
  );
  return sets.toSorted((a, b) => a.directive - b.directive);
}

/** An insertion forgets nothing, and an edit that is only cheaper leaves its text where it is. */
const erasesText = ({ operation: { erases, target } }: Forget): boolean => erases && target[1] > target[0];

/** An erase set whose texts are made when somebody erases by it. */
class LazyEraseSet implements EraseSet {
  readonly directive: number;
  readonly #spell: (before: EraseSet["path"]) => EraseSet["path"];
  readonly #before: { all: () => EraseSet["path"]; together: () => EraseSet["path"] };
  #path: EraseSet["path"] | undefined;
  #together: EraseSet["path"] | undefined;

  constructor(log: Log, cluster: Cluster, forget: Forget, before: { all: () => EraseSet["path"]; together: () => EraseSet["path"] }) {
    this.directive = forget.index;
    this.#before = before;
    this.#spell = (front) => [...front, choicesOf(log, cluster, subsets(cluster.forgets.filter((other) => other !== forget)), forget)];
  }

  get path(): EraseSet["path"] {
    return (this.#path ??= this.#spell(this.#before.all()));
  }

  get together(): EraseSet["path"] {
    return (this.#together ??= this.#spell(this.#before.together()));
  }
}

/**
 * What stands before the n-th cluster; forgets that are `applied` were in every history. The sets of all forgets have the beginning of
 * their paths in common.
 */
function commonPath(log: Log, clusters: readonly Cluster[], applied: (forget: Forget) => boolean): (count: number) => EraseSet["path"] {
  const choices: EraseChoice[][] = [];
  return (count) => {
    const path: EraseChoice[][] = [];
    for (let i = 0; i <= count; i++) {
      const { start, forgets } = clusters[i]!;
      const done = clusters[i - 1]?.end ?? 0;
      if (start > done) path.push([{ tokens: log.tokens.subarray(done, start), from: 0 }]);
      if (i < count) path.push((choices[i] ??= choicesOf(log, clusters[i]!, subsets(forgets.filter((forget) => !applied(forget)), forgets.filter(applied)), null)));
    }
    return path;
  };
}

/** What may stand in the place of a cluster, by which forgets were applied. */
function choicesOf(log: Log, cluster: Cluster, combinations: readonly Forget[][], target: Forget | null): EraseChoice[] {
  return distinct(combinations.flatMap((applied) => choiceOf(log, cluster, applied, target)));
}

function clustersOf(forgets: readonly Forget[], param: (task: Task) => string): Cluster[] {
  const clusters: Cluster[] = [];
  let reach = -1;
  for (const forget of forgets.toSorted((a, b) => compareTargets(a.operation.target, b.operation.target))) {
    const [start, end] = forget.operation.target;
    const last = clusters[clusters.length - 1];
    if (last && start < reach) {
      last.end = Math.max(last.end, end);
      last.forgets.push(forget);
      if (last.forgets.length > LIMITS.meetingForgets) {
        throw new DirectiveError("directive_limit", `At most ${LIMITS.meetingForgets} forgets may touch the same tokens; join some of them.`, param(forget));
      }
    } else clusters.push({ start, end, forgets: [forget] });
    // An insertion touches what begins at its place.
    reach = Math.max(reach, end, start + 1);
  }
  return clusters;
}

/** The cluster's text with some of its forgets applied: up to the end of `target`'s tokens, or all of it. None where nothing of them is left. */
function choiceOf(log: Log, cluster: Cluster, applied: readonly Forget[], target: Forget | null): EraseChoice[] {
  const { start, end } = cluster;
  const within = ([from, to]: Range): Range => [from - start, to - start];
  const part: Log = { tokens: log.tokens.subarray(start, end), header: end - start, contextLength: end - start };
  const tasks: Task[] = applied.map(({ index, operation }) => taskOf(index, { ...operation, at: operation.at - start, target: within(operation.target) }));
  if (target) tasks.push(taskOf(-1, { kind: "hide", at: target.operation.at - start, ranges: [within(target.operation.target)] }));
  const edited = editLog(part, tasks);
  if (!target) return [{ tokens: edited.tokens, from: 0 }];
  const left = edited.tasks.find(({ index }) => index === -1)?.operation as HideOperation | undefined;
  if (!left) return [];
  return [{ tokens: edited.tokens.slice(0, left.ranges[left.ranges.length - 1]![1]), from: left.ranges[0]![0] }];
}

/** All combinations of some items, each with those that are always there. */
function subsets<T>(items: readonly T[], always: readonly T[] = []): T[][] {
  return items.reduce<T[][]>((all, item) => all.concat(all.map((some) => some.concat([item]))), [[...always]]);
}

function distinct(choices: readonly EraseChoice[]): EraseChoice[] {
  const known = new Map(choices.map((choice) => [`${choice.from}:${choice.tokens.join()}`, choice]));
  return [...known.values()];
}

/** How far a history has been followed through an erase set. */
export interface EraseWalk {
  /** First cell that must go; −1 while the history does not have the target's text. Once found, all cells behind it go too. */
  readonly found: number;
  readonly threads: readonly EraseThread[];
}

export interface EraseThread {
  step: number;
  choice: number;
  offset: number;
  /** Cell at which the target's tokens began; −1 before. */
  since: number;
}

/**
 * Begins to follow a history from the root of a tree. Feed `advanceErase` every cell of the log in order (cells that events inserted
 * are left out: the key of the event tells how many there are); branches of the tree go on from the same state.
 */
export function startErase(set: Pick<EraseSet, "path">): EraseWalk {
  return { found: -1, threads: entered(set, 0) };
}

/** The walk after one more cell. Without threads and nothing found, the history is not in the set. */
export function advanceErase(set: Pick<EraseSet, "path">, walk: EraseWalk, token: number, cell: number): EraseWalk {
  if (walk.found >= 0) return walk;
  const threads: EraseThread[] = [];
  for (const { step, choice, offset, since } of walk.threads) {
    const { tokens, from } = set.path[step]![choice]!;
    if (tokens[offset] !== token) continue;
    const last = step === set.path.length - 1;
    const begun = last && offset === from ? cell : since;
    if (offset + 1 < tokens.length) threads.push({ step, choice, offset: offset + 1, since: begun });
    else if (last) return { found: begun, threads: [] };
    else threads.push(...entered(set, step + 1));
  }
  return { found: -1, threads: threads.length > 1 ? once(threads) : threads };
}

/** Ways that meet again go on as one: in a log that repeats itself their number would double with every forget. */
function once(threads: readonly EraseThread[]): EraseThread[] {
  const known = new Map<string, EraseThread>();
  for (const thread of threads) {
    const key = `${thread.step}:${thread.choice}:${thread.offset}`;
    const other = known.get(key);
    if (other === undefined || thread.since < other.since) known.set(key, thread);
  }
  return [...known.values()];
}

/**
 * The texts of a set one by one: raw tokens up to the target's end, and how many stand before it. Their number doubles with each
 * other forget before the target; a tree that can follow `advanceErase` needs none of them.
 */
export function* eraseTexts({ path }: Pick<EraseSet, "path">): Generator<EraseChoice> {
  const chosen = path.map(() => 0);
  for (let step = 0; step >= 0; ) {
    yield joined(path, chosen);
    for (step = path.length - 1; step >= 0 && ++chosen[step]! === path[step]!.length; step--) chosen[step] = 0;
  }
}

function joined(path: EraseSet["path"], chosen: readonly number[]): EraseChoice {
  const parts = path.map((choices, step) => choices[chosen[step]!]!);
  const tokens = new Int32Array(parts.reduce((sum, part) => sum + part.tokens.length, 0));
  let length = 0;
  for (const part of parts) {
    tokens.set(part.tokens, length);
    length += part.tokens.length;
  }
  const last = parts[parts.length - 1]!;
  return { tokens, from: length - last.tokens.length + last.from };
}

/** Threads at the beginning of a step; an empty text leads on to the next. */
function entered(set: Pick<EraseSet, "path">, step: number): EraseThread[] {
  return (set.path[step] ?? []).flatMap(({ tokens }, choice) => (tokens.length > 0 ? [{ step, choice, offset: 0, since: -1 }] : entered(set, step + 1)));
}
