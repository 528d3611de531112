/** A branch is chosen by the event in front of its first cell and by that cell's token. */
export type BranchKey = number | string;

export function branchKey(event: string | null, token: number): BranchKey {
  return event === null ? token : `${token} ${event}`;
}

/**
 * A stretch of cells that every path through it has in common. An event stands only in front of the first cell: each event of a path
 * begins a node. Tokens are a window into a buffer that many nodes share, so that a split copies nothing.
 */
export class Node<V> {
  parent: Node<V> | null;
  /** A single child stands alone: most nodes have one or none, and a Map costs more than the node. */
  children: Node<V> | Map<BranchKey, Node<V>> | null = null;
  /** The child that was used last: what a path that misses here is compared with. */
  recent: Node<V> | null = null;
  event: string | null;
  buffer: Int32Array;
  offset: number;
  length: number;
  /** Cells in front of the node, counted from the root. */
  start: number;
  /** Null: a hole. Its cells are known and gone. */
  value: V | null = null;
  /** Leases that hold the node. */
  leases = 0;
  /** Children that hold a value or have one below them. */
  residentChildren = 0;
  /** Tick of the last lease that was taken or given back. */
  lastUse = 0;
  /** Place in the heap of candidates; −1: in none. */
  heapIndex = -1;

  constructor(parent: Node<V> | null, event: string | null, buffer: Int32Array, offset: number, length: number, start: number) {
    this.parent = parent;
    this.event = event;
    this.buffer = buffer;
    this.offset = offset;
    this.length = length;
    this.start = start;
  }
}

export function keyOf<V>(node: Node<V>): BranchKey {
  return branchKey(node.event, node.buffer[node.offset]!);
}

/** Holds a value, or something below it does. */
export function isLive<V>(node: Node<V>): boolean {
  return node.value !== null || node.residentChildren > 0;
}

export function findChild<V>(node: Node<V>, event: string | null, token: number): Node<V> | null {
  const children = node.children;
  if (children === null) return null;
  if (children instanceof Map) return children.get(branchKey(event, token)) ?? null;
  return children.event === event && children.buffer[children.offset] === token ? children : null;
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

export function* childrenOf<V>(node: Node<V>): Generator<Node<V>> {
  if (node.children instanceof Map) yield* node.children.values();
  else if (node.children !== null) yield node.children;
}
