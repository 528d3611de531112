import { Bench } from "tinybench";
import { PagePool } from "../src/index.ts";

const PAGES = 1 << 20;
const BATCH = 1_000;
const pool = new PagePool({ pages: PAGES });
const held = pool.allocate(PAGES / 2, "cached");
const whole = pool.allocate(BATCH, "leased");

const bench = new Bench({ time: 1_000, warmupTime: 300 });
bench
  .add(`allocate and release ${BATCH} pages in one lease`, () => {
    pool.allocate(BATCH, "leased").release();
    pool.takeStale();
  })
  .add("allocate and release one page in a lease of its own", () => {
    pool.allocate(1, "leased").release();
  })
  .add(`hold ${BATCH} pages once more, and release`, () => {
    whole.retain("leased").release();
  })
  .add("split a lease of 2 pages, and release both parts", () => {
    for (const part of pool.allocate(2, "leased").split(20)) part.release();
  })
  .add("audit", () => {
    pool.audit();
  });

await bench.run();
held.release();
console.table(
  bench.tasks.map((task) => {
    if (task.result.state !== "completed") throw new Error(`${task.name}: ${task.result.state}`);
    const { latency } = task.result;
    return { task: task.name, "median µs": (latency.p50 * 1_000).toFixed(2), "p99 µs": (latency.p99 * 1_000).toFixed(2), samples: latency.samplesCount };
  }),
);
