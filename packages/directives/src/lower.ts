import { DirectiveError, shown } from "./errors.ts";
import { compareTargets, firstMeeting } from "./groups.ts";
import type { EditOperation, Lowered, ReplaceOperation } from "./operations.ts";
import type { Registry } from "./registry.ts";
import { paramOf, Resolver } from "./resolve.ts";
import type { Directive, Log, Range } from "./types.ts";

/** Every directive in terms of operations, in the log's own coordinates. What one boundary cannot hold together is refused. */
export function lowerAll(registry: Registry, log: Log, directives: readonly Directive[]): Lowered[] {
  const resolver = new Resolver(log);
  const lowered = directives.map((directive, index) => {
    const verb = registry.get(directive.op);
    if (!verb) throw new DirectiveError("directive_unknown", `No verb ${shown(directive.op)} is known.`, paramOf(directive, index, "op"));
    return verb.lower(resolver.context(directive, index), directive);
  });
  refuseMeetingSplices(directives, lowered);
  return lowered;
}

interface SpliceTarget {
  index: number;
  target: Range;
}

/** Splice targets of one boundary may neither overlap nor start at the same place, `forget` included. */
function refuseMeetingSplices(directives: readonly Directive[], lowered: readonly Lowered[]): void {
  const boundaries = new Map<number, SpliceTarget[]>();
  lowered.forEach(({ operations }, index) => {
    for (const operation of operations) {
      if (operation.kind !== "replace" && operation.kind !== "edit") continue;
      const { at, target }: ReplaceOperation | EditOperation = operation;
      const targets = boundaries.get(at);
      if (targets) targets.push({ index, target });
      else boundaries.set(at, [{ index, target }]);
    }
  });
  for (const targets of boundaries.values()) {
    if (targets.length === 1) continue;
    const sorted = targets.toSorted((a, b) => compareTargets(a.target, b.target) || a.index - b.index);
    const meeting = firstMeeting(sorted.map(({ target }) => target));
    if (meeting < 0) continue;
    const other = sorted.slice(0, meeting).findLast(({ target }) => target[0] === sorted[meeting]!.target[0] || target[1] > sorted[meeting]!.target[0])!;
    const [first, second] = other.index < sorted[meeting]!.index ? [other, sorted[meeting]!] : [sorted[meeting]!, other];
    throw new DirectiveError(
      "target_overlap",
      `The splice of [${second.target}] meets that of [${first.target}] (${paramOf(directives[first.index]!, first.index)}) at one boundary; ` +
        "targets of one boundary may neither overlap nor start at the same place. Join them, or give them different boundaries.",
      paramOf(directives[second.index]!, second.index, "target"),
    );
  }
}
