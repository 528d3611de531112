// A serving stack in 60 lines: a toy model whose cells are numbers, a pool of them, and the tree in between.
import { namespaceKey, RadixTree, type Path } from "@palimpsest/radix";

/** The pool: cells by slot, and how many handles each slot has. A value of the tree is a list of slots. */
const cells: number[] = [];
const handles: number[] = [];
const free: number[] = Array.from({ length: 64 }, (_, slot) => 63 - slot);
const retain = (slots: number[]) => {
  for (const slot of slots) handles[slot] = (handles[slot] ?? 0) + 1;
  return slots;
};
const release = (slots: number[]) => {
  for (const slot of slots) if (--handles[slot]! === 0) free.push(slot);
};
const tree = new RadixTree<number[]>({ split: (slots, at) => [slots.slice(0, at), slots.slice(at)], retain: (slots) => retain([...slots]), release });
const namespace = namespaceKey({ model: "toy 1", layout: "one number", dtype: "f64", rotary: "none", tenant: "alice" });

/** What the model needs: a cell is a function of its token and of the cells that are visible when it is born. */
const compute = (token: number, visible: number[]) => visible.reduce((sum, cell, i) => (sum * 31 + cell * (i + 1)) % 65_521, token);

/** An event "hide 2-5" hides the cells 2, 3 and 4 from all that come later. */
function visibleAt(path: Path, cell: number, known: number[]): number[] {
  const hidden = path.events.filter(({ at }) => at <= cell).map(({ key }) => key.slice(5).split("-").map(Number) as [number, number]);
  return known.slice(0, cell).filter((_, i) => !hidden.some(([from, to]) => i >= from && i < to));
}

/** Prefills a prompt: what the tree has is read, what it lacks is computed and entered. */
function prefill(text: string): void {
  const tokens: number[] = [];
  const events: { at: number; key: string }[] = [];
  for (const part of text.match(/\[[^\]]*\]|\S/g) ?? []) {
    if (part.length > 1) events.push({ at: tokens.length, key: part.slice(1, -1) });
    else tokens.push(part.charCodeAt(0));
  }
  const path: Path = { tokens: Int32Array.from(tokens), events };
  const hit = tree.match(namespace, path);
  const slots = hit.spans.flatMap(({ value, length }) => value ?? Array.from<number>({ length }).fill(-1));
  const missing = tokens.map((_, i) => i).filter((i) => (slots[i] ?? -1) < 0);
  if (free.length < missing.length) tree.evictUntil(() => free.length >= missing.length);
  for (const i of missing) {
    slots[i] = free.pop()!;
    cells[slots[i]!] = compute(tokens[i]!, visibleAt(path, i, slots.map((slot) => cells[slot]!)));
  }
  for (let from = 0; from < missing.length; ) {
    let to = from + 1;
    while (missing[to] === missing[to - 1]! + 1) to++;
    const part = slots.slice(missing[from], missing[to - 1]! + 1);
    tree.insert(namespace, path, missing[from]!, missing[to - 1]! + 1, retain(part)).release();
    from = to;
  }
  const why = hit.difference === null ? hit.end : `${hit.end} at ${hit.difference.cell}`;
  console.log(`${text.padEnd(24)} cached ${tokens.length - missing.length}, computed ${missing.length} (${why}), answer ${cells[slots.at(-1)!]}`);
  hit.release();
}

for (const prompt of ["abcdef", "abcdefgh", "abcd[hide 1-3]ef", "abcd[hide 1-3]efgh", "abXd", "abcdefgh"]) prefill(prompt);
for (const letter of "ABCDEFGHIJ") prefill(letter.repeat(9));
prefill("abcdefgh");
console.log(tree.stats());
