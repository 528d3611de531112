export { RADIX_ERROR_CODES, RadixError, type ErrorKind, type RadixErrorCode } from "./errors.ts";
export { namespaceKey, parseNamespaceKey, type Namespace } from "./namespace.ts";
export { leastRecentlyUsed, type Candidate, type EvictionPolicy } from "./store.ts";
export { RadixTree, TREE_LIMITS, type Probe, type TreeOptions } from "./tree.ts";
export type * from "./types.ts";
