import { bornCellsOf } from "@palimpsest/directives";
import type { Runtime } from "@palimpsest/kernels-cuda";
import { ARCHIVE_LIMITS, CellArchive, DiskFolder, HostTier, type ArchiveLimits, type DiskFolderOptions, type Tier } from "@palimpsest/kvstore";
import { EngineError } from "./errors.ts";

export interface TierOptions {
  /** Bytes of cells in host memory. 0 or absent: none. */
  hostBytes?: number | undefined;
  disk?: DiskFolderOptions | undefined;
  limits?: Partial<ArchiveLimits>;
  /** Told of errors of tiers. They cost cells, which are computed again, and nothing else. */
  onError?: (error: unknown) => void;
}

/** Cells of a block: what is found, moved and forgotten as a whole. */
const BLOCK_CELLS = 16;

/**
 * Tiers behind the pool of a runtime, for `EngineOptions.archive`. Errors: `tiers_unsupported`, and those of the disk (`tier_unusable`,
 * `store_key_wrong`, `argument_invalid`).
 */
export async function openArchive(runtime: Pick<Runtime, "cells" | "pages" | "pageBytes">, { hostBytes = 0, disk, limits, onError }: TierOptions): Promise<CellArchive> {
  const port = runtime.cells;
  if (port === undefined) throw new EngineError("tiers_unsupported", "this runtime does not give access to its cells, so they cannot be kept elsewhere");
  const tiers: Tier[] = [];
  if (hostBytes > 0) tiers.push(new HostTier({ bytesMax: hostBytes, blockBytes: BLOCK_CELLS * port.cellBytes }));
  if (disk !== undefined) tiers.push(await DiskFolder.open(disk));
  try {
    return await openWith(runtime, tiers, limits, onError);
  } catch (error) {
    for (const tier of tiers) await tier.close();
    throw error;
  }
}

/** The same over tiers of one's own. */
export function openWith(runtime: Pick<Runtime, "cells" | "pages" | "pageBytes">, tiers: readonly Tier[], limits: Partial<ArchiveLimits> = {}, onError: (error: unknown) => void = () => {}): Promise<CellArchive> {
  const port = runtime.cells!;
  const blockBytes = BLOCK_CELLS * port.cellBytes;
  // Pages that are on their way are nobody's to use: a small pool must not be all on its way.
  const share = (bytesMax: number, parts: number) => Math.max(blockBytes, Math.min(bytesMax, Math.floor((runtime.pages * runtime.pageBytes) / parts)));
  return CellArchive.open({
    port,
    tiers,
    blockCells: BLOCK_CELLS,
    ownedCells: bornCellsOf,
    limits: {
      demotingBytesMax: share(ARCHIVE_LIMITS.demotingBytesMax, 2),
      promotingBytesMax: share(ARCHIVE_LIMITS.promotingBytesMax, 2),
      batchBytes: share(ARCHIVE_LIMITS.batchBytes, 8),
      ...limits,
    },
    onError,
  });
}
