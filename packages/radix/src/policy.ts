/** What a policy may know of a node: a stretch of cells that has a value and that no lease reads. */
export interface Candidate {
  /** Cells in front of the node, counted from the root. */
  readonly start: number;
  readonly length: number;
  /** Tick of the last lease on the node or on anything below it: a count of leases taken and given back. */
  readonly lastUse: number;
  /** Leases that read it so far. */
  readonly uses: number;
}

/**
 * The order of eviction among cells of one rank: the least priority goes first, among equals the deeper node. Ranks and pins come
 * before any policy.
 */
export interface EvictionPolicy {
  /** Asked when a node becomes a candidate and after each use of it; both parts of a split keep their priority. */
  priority(node: Candidate): number;
  /** Told what was evicted. */
  evicted?(node: Candidate, priority: number): void;
}

/** The least recently used cells go first, of one path the deepest: leaves before what leads to them. */
export const leastRecentlyUsed: EvictionPolicy = { priority: (node) => node.lastUse };

/**
 * Weighs what it would cost to compute cells again against the chance that they are wanted (GreedyDual-Size-Frequency; Cherkasova,
 * 1998). A cell at depth d costs 1 + d / `depthCells` forward rows: one for the products, the rest for attention to what is in front.
 * Chance is the number of uses. `priority = floor + uses · cost per cell`, where the floor is the priority of what was evicted last, so
 * that cells nobody comes back to fall behind. `depthCells` is the depth at which attention costs as much as the products of a row.
 */
export function costAware(options: { depthCells: number }): EvictionPolicy {
  let floor = 0;
  return {
    priority: (node) => floor + node.uses * (1 + (node.start + node.length / 2) / options.depthCells),
    evicted: (_node, priority) => {
      floor = Math.max(floor, priority);
    },
  };
}
