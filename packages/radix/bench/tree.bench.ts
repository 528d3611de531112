import { Bench } from "tinybench";
import { RadixTree, type Path } from "../src/index.ts";

const ops = { split: (value: number, at: number): [number, number] => [at, value - at], retain: (value: number) => value, release: () => {} };
const plain = (tokens: Int32Array): Path => ({ tokens, events: [] });
const LOG = 100_000;
const NODES = 100_000;

/** A log of 100,000 tokens that came in as an agent's does: 100 turns of 1,000. */
function agentTree(): { tree: RadixTree<number>; path: Path } {
  const tree = new RadixTree<number>(ops);
  const path = plain(Int32Array.from({ length: LOG }, (_, i) => (i * 2_654_435_761) | 0));
  for (let turn = 0; turn < 100; turn++) tree.insert("n", path, turn * 1_000, (turn + 1) * 1_000, 1_000).release();
  return { tree, path };
}

function flatTree(): RadixTree<number> {
  const tree = new RadixTree<number>(ops);
  for (let i = 0; i < NODES; i++) tree.insert("n", plain(Int32Array.of(i, 1, 2, 3)), 0, 4, 4).release();
  return tree;
}

const agent = agentTree();
const flat = flatTree();
let next = NODES;
let serial = 0;
// What the other tasks need stays, whatever one of them evicts.
agent.tree.match("n", agent.path);

const bench = new Bench({ time: 1_000, warmupTime: 300 });

bench
  .add("match a log of 100k tokens in 100 turns, and release", () => {
    agent.tree.match("n", agent.path).release();
  })
  .add("probe a log of 100k tokens in 100 turns", () => {
    agent.tree.probe("n", agent.path);
  })
  .add("insert a log of 100k new tokens, and release", () => {
    agent.path.tokens[0] = ++serial;
    agent.tree.insert("n", agent.path, 0, LOG, LOG).release();
    agent.path.tokens[0] = 0;
    if (serial % 20 === 0) agent.tree.evict(15 * LOG);
  })
  .add("insert 16 tokens behind a log of 100k, and release", () => {
    const tokens = new Int32Array(LOG + 16);
    tokens.set(agent.path.tokens);
    tokens[LOG] = ++serial;
    agent.tree.insert("n", plain(tokens), LOG, LOG + 16, 16).release();
  })
  .add("evict one of 100k nodes, and insert another", () => {
    flat.evict(1);
    flat.insert("n", plain(Int32Array.of(next++, 1, 2, 3)), 0, 4, 4).release();
  });

await bench.run();
console.table(
  bench.tasks.map((task) => {
    if (task.result.state !== "completed") throw new Error(`${task.name}: ${task.result.state}`);
    const { latency } = task.result;
    return { task: task.name, "median µs": (latency.p50 * 1_000).toFixed(1), "p99 µs": (latency.p99 * 1_000).toFixed(1), samples: latency.samplesCount };
  }),
);
