import type { Cache } from "./cache.ts";
import { EngineError } from "./errors.ts";
import type { Scheduler } from "./scheduler.ts";

/** Pool, tree, promises and leases, as they must stand between two steps. Walks everything. */
export function checkIntegrity(cache: Cache, { running }: Scheduler): void {
  cache.checkIntegrity();
  const writers = new Map<number, number>();
  let promised = 0;
  for (const { id, admission } of running) {
    const { holding } = admission!;
    promised += holding.promised;
    for (const slot of holding.writableSlots()) {
      const other = writers.get(slot);
      if (other !== undefined) throw new EngineError("engine_damaged", `slot ${slot} is written by sequences ${other} and ${id}`);
      writers.set(slot, id);
    }
  }
  if (promised !== cache.promised) throw new EngineError("engine_damaged", `sequences may take ${promised} pages, ${cache.promised} are promised`);
  const { leased } = cache.pool.audit();
  if (running.length === 0 && leased > 0) throw new EngineError("engine_damaged", `nobody runs, and ${leased} pages are leased`);
  const leases = cache.tree.stats().leases;
  if (running.length === 0 && leases > 0) throw new EngineError("engine_damaged", `nobody runs, and ${leases} leases are out`);
}
