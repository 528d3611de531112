import type { EngineState } from "@palimpsest/engine";
import type { Metrics } from "../metrics.ts";

type Tiers = NonNullable<EngineState["tiers"]>;

/** What `/v1/cache` says of the tiers behind the pool. */
export function tiersBody({ tiers, demotingBytes, promotingBytes, ...counts }: Tiers): object {
  return {
    tiers: tiers.map(({ name, blocks, bytes, bytesMax, readBytesPerSecond, writeBytesPerSecond }) => ({
      name,
      blocks,
      bytes,
      bytes_max: bytesMax,
      read_bytes_per_second: Math.round(readBytesPerSecond),
      write_bytes_per_second: Math.round(writeBytesPerSecond),
    })),
    transfers: {
      demoting_bytes: demotingBytes,
      promoting_bytes: promotingBytes,
      demoted_blocks: counts.demoted,
      refused_blocks: counts.refused,
      lost_blocks: counts.lost,
      evicted_blocks: counts.evicted,
      promoted_blocks: counts.promoted,
      damaged_blocks: counts.damaged,
      late_blocks: counts.late,
      errors: counts.errors,
      restored_tokens: counts.restoredCells,
      recomputed_tokens: counts.recomputedCells,
      missed_tokens: counts.missedCells,
    },
  };
}

const BLOCKS = ["demoted", "refused", "lost", "evicted", "promoted", "damaged", "late"] as const;

/** The same for `/metrics`. */
export function tierGauges(metrics: Metrics, state: Tiers): void {
  for (const { name, blocks, bytes, bytesMax, readBytesPerSecond, writeBytesPerSecond } of state.tiers) {
    const labels = { tier: name };
    metrics.set("palimpsest_tier_blocks", "Blocks of 16 cells that a tier holds.", blocks, labels);
    metrics.set("palimpsest_tier_bytes", "Bytes of cells that a tier holds.", bytes, labels);
    metrics.set("palimpsest_tier_bytes_max", "Bytes of cells that a tier may hold.", bytesMax, labels);
    metrics.set("palimpsest_tier_read_bytes_per_second", "Speed of reads from a tier, as measured.", readBytesPerSecond, labels);
    metrics.set("palimpsest_tier_write_bytes_per_second", "Speed of writes to a tier, as measured.", writeBytesPerSecond, labels);
  }
  for (const what of BLOCKS) metrics.set("palimpsest_tier_transfers", "Blocks so far, by what became of them.", state[what], { what });
  metrics.set("palimpsest_tier_errors", "Errors of tiers so far; they cost cells, which are computed again.", state.errors);
  const tokens = { restored: state.restoredCells, recomputed: state.recomputedCells, missed: state.missedCells };
  for (const [how, count] of Object.entries(tokens)) metrics.set("palimpsest_tier_tokens", "Tokens that a tier had and a request needed.", count, { how });
}
