import type { Node } from "./node.ts";

/**
 * The nodes that could be evicted now, least valuable first: a binary heap that knows where each node lies, so that a node enters,
 * leaves and moves in O(log n) and nothing ever scans the tree. Among equals the deeper node goes first.
 */
export class Candidates<V> {
  readonly #nodes: Node<V>[] = [];
  readonly #priorities: number[] = [];

  get size(): number {
    return this.#nodes.length;
  }

  /** Adds `node`, or moves it when it is here already. */
  put(node: Node<V>, priority: number): void {
    if (node.heapIndex < 0) {
      node.heapIndex = this.#nodes.length;
      this.#nodes.push(node);
      this.#priorities.push(priority);
    } else {
      this.#priorities[node.heapIndex] = priority;
    }
    this.#sink(this.#rise(node.heapIndex));
  }

  /** Idempotent. */
  remove(node: Node<V>): void {
    const index = node.heapIndex;
    if (index < 0) return;
    node.heapIndex = -1;
    const last = this.#nodes.pop()!;
    const priority = this.#priorities.pop()!;
    if (last === node) return;
    this.#set(index, last, priority);
    this.#sink(this.#rise(index));
  }

  /** The least valuable node. */
  first(): Node<V> | null {
    return this.#nodes[0] ?? null;
  }

  priorityOf(node: Node<V>): number | undefined {
    return node.heapIndex < 0 ? undefined : this.#priorities[node.heapIndex];
  }

  holds(node: Node<V>): boolean {
    return this.#nodes[node.heapIndex] === node;
  }

  /** A pair that stands in the wrong order, for the integrity check; null when there is none. */
  disorder(): [number, number] | null {
    for (let i = 1; i < this.#nodes.length; i++) if (this.#before(i, (i - 1) >> 1)) return [(i - 1) >> 1, i];
    return null;
  }

  #before(a: number, b: number): boolean {
    const difference = this.#priorities[a]! - this.#priorities[b]!;
    return difference !== 0 ? difference < 0 : this.#nodes[a]!.start > this.#nodes[b]!.start;
  }

  #set(index: number, node: Node<V>, priority: number): void {
    this.#nodes[index] = node;
    this.#priorities[index] = priority;
    node.heapIndex = index;
  }

  #swap(a: number, b: number): void {
    const node = this.#nodes[a]!;
    const priority = this.#priorities[a]!;
    this.#set(a, this.#nodes[b]!, this.#priorities[b]!);
    this.#set(b, node, priority);
  }

  #rise(index: number): number {
    let at = index;
    while (at > 0 && this.#before(at, (at - 1) >> 1)) {
      this.#swap(at, (at - 1) >> 1);
      at = (at - 1) >> 1;
    }
    return at;
  }

  #sink(index: number): void {
    let at = index;
    while (true) {
      let least = at;
      if (2 * at + 1 < this.size && this.#before(2 * at + 1, least)) least = 2 * at + 1;
      if (2 * at + 2 < this.size && this.#before(2 * at + 2, least)) least = 2 * at + 2;
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }
}
