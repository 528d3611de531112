import type { Block } from "./arena.ts";

/** A branch is chosen by the event in front of its first cell and by that cell's token. */
export type BranchKey = number | string;

export function branchKey(event: string | null, token: number): BranchKey {
  return event === null ? token : `${token} ${event}`;
}

/**
 * A stretch of cells that every path through it has in common. An event stands only in front of the first cell: each event of a path
 * begins a node. Tokens are a window into a block that many nodes share, so that a split copies nothing.
 */
export class Node<V> {
  parent: Node<V> | null;
  /** A single child stands alone: most nodes have one or none, and a Map costs more than the node. */
  children: Node<V> | Map<BranchKey, Node<V>> | null = null;
  /** The child that was used last: what a path that misses here is compared with. */
  recent: Node<V> | null = null;
  /** Event in front of the first cell. The root has its namespace here. */
  event: string | null;
  block: Block;
  offset: number;
  length: number;
  /** Cells in front of the node, counted from the root. */
  start: number;
  /** Null: a hole. Its cells are known and gone. */
  value: V | null = null;
  /** Leases that read the node. */
  leases = 0;
  /** Leases that hold its place and do not read it. */
  skips = 0;
  pins = 0;
  /** Tick of the last lease on the node or on anything below it. */
  lastUse = 0;
  /** Leases that read it, ever. */
  uses = 0;
  /** What its last reader said of its worth: the lowest rank is evicted first, whatever the policy says. */
  rank = 0;
  /** What the policy said of it last. */
  priority = 0;
  /** Place in the heap of candidates; −1: in none. */
  heapIndex = -1;
  /** Place in the list of all nodes. */
  index = -1;

  constructor(parent: Node<V> | null, event: string | null, block: Block, offset: number, length: number, start: number) {
    this.parent = parent;
    this.event = event;
    this.block = block;
    this.offset = offset;
    this.length = length;
    this.start = start;
  }
}

export function firstToken<V>(node: Node<V>): number {
  return node.block.tokens[node.offset]!;
}

export function keyOf<V>(node: Node<V>): BranchKey {
  return branchKey(node.event, firstToken(node));
}

export function endOf<V>(node: Node<V>): number {
  return node.start + node.length;
}

/** Nobody holds the place of the node: as a hole without children it may go. */
export function isIdle<V>(node: Node<V>): boolean {
  return node.leases === 0 && node.skips === 0 && node.pins === 0;
}

export function findChild<V>(node: Node<V>, event: string | null, token: number): Node<V> | null {
  const children = node.children;
  if (children === null) return null;
  if (children instanceof Map) return children.get(branchKey(event, token)) ?? null;
  return children.event === event && firstToken(children) === token ? children : null;
}

export function addChild<V>(node: Node<V>, child: Node<V>): void {
  const children = node.children;
  if (children === null) node.children = child;
  else if (children instanceof Map) children.set(keyOf(child), child);
  else {
    node.children = new Map([
      [keyOf(children), children],
      [keyOf(child), child],
    ]);
  }
}

/** `replacement` has the key of `child`: the upper part of a split. */
export function replaceChild<V>(node: Node<V>, child: Node<V>, replacement: Node<V>): void {
  if (node.children instanceof Map) node.children.set(keyOf(replacement), replacement);
  else node.children = replacement;
  if (node.recent === child) node.recent = replacement;
}

export function removeChild<V>(node: Node<V>, child: Node<V>): void {
  const children = node.children;
  if (children instanceof Map) {
    children.delete(keyOf(child));
    if (children.size === 1) node.children = children.values().next().value!;
  } else {
    node.children = null;
  }
  if (node.recent === child) node.recent = null;
}

export function childrenOf<V>(node: Node<V>): readonly Node<V>[] {
  const children = node.children;
  if (children === null) return [];
  return children instanceof Map ? [...children.values()] : [children];
}
