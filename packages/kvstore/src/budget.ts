import { KvstoreError } from "./errors.ts";

/** What accounts, for instance tenants, may hold at most. Absent: no bound but the pool. */
export interface Budgets {
  /** Of an account that has no number of its own. */
  each?: number;
  accounts?: Readonly<Record<string, number>>;
}

/** Units in use by account, against budgets. Accounts without anything in use are forgotten. */
export class Ledger {
  readonly #budgets: Budgets;
  /** What is counted, for messages: "pages", "bytes". */
  readonly #unit: string;
  readonly #used = new Map<string, number>();

  constructor(budgets: Budgets, unit: string) {
    for (const [account, max] of [["each", budgets.each], ...Object.entries(budgets.accounts ?? {})] as [string, number | undefined][]) {
      if (max !== undefined && !(max >= 0)) {
        throw new KvstoreError("argument_invalid", `a budget of ${unit} is 0 or more, not ${max}`, `budgets.${account}`);
      }
    }
    this.#budgets = budgets;
    this.#unit = unit;
  }

  budgetOf(account: string): number {
    return this.#budgets.accounts?.[account] ?? this.#budgets.each ?? Infinity;
  }

  usedBy(account: string): number {
    return this.#used.get(account) ?? 0;
  }

  /** What the account could take now. */
  roomOf(account: string): number {
    return this.budgetOf(account) - this.usedBy(account);
  }

  /** Throws `budget_exceeded`, and then nothing was counted. */
  take(account: string, units: number): void {
    const used = this.usedBy(account);
    const budget = this.budgetOf(account);
    if (used + units > budget) {
      throw new KvstoreError("budget_exceeded", `account ${account} uses ${used} of ${budget} ${this.#unit}, ${units} more do not fit`, "account");
    }
    if (units > 0) this.#used.set(account, used + units);
  }

  give(account: string, units: number): void {
    const left = this.usedBy(account) - units;
    if (left === 0) this.#used.delete(account);
    else this.#used.set(account, left);
  }

  /** Accounts that use something. */
  entries(): IterableIterator<[account: string, units: number]> {
    return this.#used.entries();
  }
}
