import type { ContentIndex, Found } from "./content.ts";
import { pathTo } from "./evicted.ts";
import { endOf, type Node } from "./node.ts";
import type { NodeStore } from "./store.ts";
import type { ContentMatch, ContentQuery, MatchLease, Path } from "./types.ts";

const MATCHES_MAX = 64;

/** What is found of a path elsewhere, as far as it has cells and the query accepts it, with leases. */
export function contentMatches<V>(
  store: NodeStore<V>,
  index: ContentIndex<V>,
  root: Node<V>,
  path: Path,
  from: number,
  query: ContentQuery,
  lease: (last: Node<V>, start: number) => MatchLease<V>,
): ContentMatch<V>[] {
  const matches: ContentMatch<V>[] = [];
  const cuts = path.events.map((event) => event.at);
  // Found first, leased then: leases cut nodes.
  const found = [...index.find(root, path.tokens, from, cuts)].flatMap((one) => residentParts(one, index.cellsMin));
  for (const { at, node, start, length } of found) {
    if (matches.length >= (query.matchesMax ?? MATCHES_MAX)) break;
    const source = pathTo(node);
    const end = start + length;
    const whole: Path = { tokens: source.tokens.subarray(0, end), events: source.events.filter((event) => event.at < end) };
    const exact = query.sameContext?.(whole, start, path, at, length) === true;
    if (!exact && query.approximate !== true) continue;
    const stretch = store.stretch(node, start, end);
    if (stretch === null) continue;
    const taken = lease(stretch.last, stretch.start);
    matches.push({ at: at + stretch.start - start, length: taken.length - stretch.start, sourceAt: stretch.start, source: whole, exact, lease: taken });
  }
  return matches;
}

/** The stretches of what was found that have cells, each long enough to be worth anything. */
function residentParts<V>(found: Found<V>, cellsMin: number): Found<V>[] {
  const parts: Found<V>[] = [];
  const end = found.start + found.length;
  let last: Node<V> | null = null;
  const close = (start: number) => {
    if (last === null) return;
    const length = Math.min(end, endOf(last)) - start;
    if (length >= cellsMin) parts.push({ at: found.at + start - found.start, length, node: last, start });
    last = null;
  };
  for (let node = found.node; endOf(node) > found.start; node = node.parent!) {
    if (node.value === null) close(endOf(node));
    else last ??= node;
    if (node.start <= found.start) break;
  }
  close(found.start);
  return parts.toReversed();
}
