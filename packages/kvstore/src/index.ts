export { KVSTORE_ERROR_CODES, KvstoreError, type ErrorKind, type KvstoreErrorCode } from "./errors.ts";
export { cellOps, CellLease } from "./lease.ts";
export type { Budgets } from "./budget.ts";
export { PagePool, type PagePoolOptions } from "./pool.ts";
export type * from "./types.ts";
