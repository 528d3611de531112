import { RadixError } from "./errors.ts";
import { childrenOf, endOf, findChild, firstToken, isIdle, type Node } from "./node.ts";
import type { PinBook } from "./pins.ts";
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
  pinned: number;
  /** Cells by how often they are pinned. */
  pins: number;
}

/** Walks everything and compares it with what the store believes. */
export function checkIntegrity<V>(store: NodeStore<V>, pins: PinBook<V>): void {
  const totals: Totals = { nodes: 0, holes: 0, cells: 0, holeCells: 0, candidates: 0, pinned: 0, pins: 0 };
  for (const [namespace, root] of store.roots) {
    require(root.parent === null && root.length === 0 && root.event === namespace, () => `root of ${namespace} is no root`);
    require(root.children !== null, () => `namespace ${namespace} is empty`);
    checkChildren(store, root, totals);
  }
  const stats = store.stats();
  for (const name of ["nodes", "holes", "cells", "holeCells", "candidates"] as const) {
    require(stats[name] === totals[name], () => `${name}: counted ${totals[name]}, kept ${stats[name]}`);
  }
  require(totals.pinned === store.pinned.size, () => `pinned candidates: counted ${totals.pinned}, kept ${store.pinned.size}`);
  require(totals.pins === pins.cells && !pins.disorder(), () => `pinned cells: counted ${totals.pins}, kept ${pins.cells}`);
  require(store.candidates.disorder() === null && store.pinned.disorder() === null, () => "candidates are out of order");
  require((store.content?.stale() ?? 0) === 0, () => `${store.content?.stale()} windows of nodes without cells`);
  require(store.arena.live === totals.cells + totals.holeCells, () => `tokens: ${store.arena.live} live in the arena`);
}

function checkChildren<V>(store: NodeStore<V>, root: Node<V>, totals: Totals): void {
  const open = [root];
  for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
    const at = parent.start;
    require(!(parent.children instanceof Map) || parent.children.size > 1, () => `a Map for one child at cell ${at}`);
    for (const child of childrenOf(parent)) {
      checkPlace(parent, child);
      checkHolders(store, parent, child);
      count(store, child, totals);
      open.push(child);
    }
  }
}

function checkPlace<V>(parent: Node<V>, node: Node<V>): void {
  const at = `node at cell ${node.start}`;
  require(node.parent === parent, () => `${at} does not know its parent`);
  require(node.start === endOf(parent), () => `${at} does not follow its parent`);
  require(node.length > 0 && node.offset >= 0 && node.offset + node.length <= node.block.tokens.length, () => `${at} leaves its block`);
  require(findChild(parent, node.event, firstToken(node)) === node, () => `${at} is not found under its key`);
  require(parent.recent === null || parent.recent.parent === parent, () => `the recent child in front of ${at} is gone`);
}

function checkHolders<V>(store: NodeStore<V>, parent: Node<V>, node: Node<V>): void {
  const at = `node at cell ${node.start}`;
  require(node.leases >= 0 && node.skips >= 0 && node.pins >= 0, () => `${at} has fewer than no holders`);
  require(store.all[node.index] === node, () => `${at} is not in the list of nodes`);
  require(node.value !== null || node.children !== null || !isIdle(node), () => `${at} is a hole that nothing needs`);
  const mayGo = node.value !== null && node.leases === 0;
  const heaps = `${store.candidates.holds(node)}, ${store.pinned.holds(node)}`;
  require(heaps === `${mayGo && node.pins === 0}, ${mayGo && node.pins > 0}`, () => `${at} is a candidate, pinned candidate: ${heaps}`);
  require(parent.parent === null || parent.lastUse >= node.lastUse, () => `${at} was used after its parent`);
  require(!store.erasures.has(node) || node.leases > 0, () => `${at} is waited for and has no readers`);
}

function count<V>(store: NodeStore<V>, node: Node<V>, totals: Totals): void {
  totals.nodes++;
  totals.pins += node.pins * node.length;
  if (node.value === null) totals.holes++;
  if (node.value === null) totals.holeCells += node.length;
  else totals.cells += node.length;
  if (store.candidates.holds(node)) totals.candidates++;
  if (store.pinned.holds(node)) totals.pinned++;
}
