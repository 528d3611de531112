import { RadixError } from "./errors.ts";
import { childrenOf, findChild, isLive, type Node } from "./node.ts";
import type { NodeStore } from "./store.ts";

function require(condition: boolean, message: () => string): void {
  if (!condition) throw new RadixError("tree_damaged", message());
}

interface Totals {
  nodes: number;
  holes: number;
  cells: number;
  holeCells: number;
  candidates: number;
}

/** Walks everything and compares it with what the store believes. */
export function checkIntegrity<V>(store: NodeStore<V>): void {
  const totals: Totals = { nodes: 0, holes: 0, cells: 0, holeCells: 0, candidates: 0 };
  for (const [namespace, root] of store.roots) {
    require(root.parent === null && root.length === 0 && root.event === namespace, () => `root of ${namespace} is no root`);
    require(root.children !== null, () => `namespace ${namespace} is empty`);
    checkChildren(store, root, totals);
  }
  const stats = store.stats();
  for (const name of ["nodes", "holes", "cells", "holeCells", "candidates"] as const) {
    require(stats[name] === totals[name], () => `${name}: counted ${totals[name]}, kept ${stats[name]}`);
  }
  const disorder = store.candidates.disorder();
  require(disorder === null, () => `candidates ${disorder?.join(" and ")} are out of order`);
}

function checkChildren<V>(store: NodeStore<V>, parent: Node<V>, totals: Totals): void {
  let live = 0;
  for (const child of childrenOf(parent)) {
    if (isLive(child)) live++;
    checkNode(store, parent, child, totals);
    checkChildren(store, child, totals);
  }
  require(parent.residentChildren === live, () => `${live} live children at cell ${parent.start}, kept ${parent.residentChildren}`);
  require(!(parent.children instanceof Map) || parent.children.size > 1, () => `a Map for one child at cell ${parent.start}`);
}

function checkNode<V>(store: NodeStore<V>, parent: Node<V>, node: Node<V>, totals: Totals): void {
  const at = `node at cell ${node.start}`;
  require(node.parent === parent, () => `${at} does not know its parent`);
  require(node.start === parent.start + parent.length, () => `${at} does not follow its parent`);
  require(node.length > 0 && node.offset >= 0 && node.offset + node.length <= node.buffer.length, () => `${at} leaves its buffer`);
  require(findChild(parent, node.event, node.buffer[node.offset]!) === node, () => `${at} is not found under its key`);
  require(parent.recent === null || parent.recent.parent === parent, () => `${at} has a sibling that is gone as its recent one`);
  require(node.leases >= 0, () => `${at} has ${node.leases} leases`);
  require(node.value !== null || node.children !== null || node.leases > 0, () => `${at} is a hole that nothing needs`);
  const mayGo = node.value !== null && node.leases === 0;
  const isCandidate = store.candidates.holds(node);
  require(mayGo === isCandidate, () => `${at} is ${isCandidate ? "a" : "no"} candidate, with ${node.leases} leases`);
  require(parent.parent === null || parent.lastUse >= node.lastUse, () => `${at} was used after its parent`);
  totals.nodes++;
  if (node.value === null) totals.holes++;
  if (node.value === null) totals.holeCells += node.length;
  else totals.cells += node.length;
  if (isCandidate) totals.candidates++;
}
