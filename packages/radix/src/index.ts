export { compare } from "./compare.ts";
export type { ContentOptions } from "./content.ts";
export { RADIX_ERROR_CODES, RadixError, type ErrorKind, type RadixErrorCode } from "./errors.ts";
export { namespaceKey, parseNamespaceKey, type Namespace } from "./namespace.ts";
export { RANK } from "./lease.ts";
export type { Cells, OwnedCells } from "./pattern.ts";
export { costAware, leastRecentlyUsed, type Candidate, type EvictionPolicy } from "./policy.ts";
export { RadixTree, TREE_LIMITS, type EvictOptions, type Probe, type TreeOptions } from "./tree.ts";
export type * from "./types.ts";
