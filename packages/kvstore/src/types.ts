declare const brand: unique symbol;
/** Index of a page in the pool. */
export type PageId = number & { readonly [brand]: "page" };
/** page · pageSize + offset: where one cell lies. */
export type Slot = number & { readonly [brand]: "slot" };

/**
 * Who holds a page. Each page counts once in the audit, in the order held, leased, cached, free:
 * `held` = a transfer, `leased` = a sequence or a match, `cached` = only the tree.
 */
export type Holder = "held" | "leased" | "cached";

export interface Audit {
  total: number;
  free: number;
  cached: number;
  leased: number;
  held: number;
}
