import { KvstoreError } from "./errors.ts";

/** Time, for whoever must wait: tests own one. */
export interface Clock {
  /** Milliseconds, from any beginning. */
  now(): number;
  /** Calls `act` after so many milliseconds; the function that comes back calls it off. */
  after(ms: number, act: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** What `work` comes to, or `transfer_late` when that takes longer than `ms`. What comes later is told to `late`. */
export function within<T>(clock: Clock, ms: number, what: string, work: Promise<T>, late?: (value: T) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let open = true;
    const stop = clock.after(ms, () => {
      open = false;
      reject(new KvstoreError("transfer_late", `${what} took more than ${ms} ms`));
    });
    work.then(
      (value) => {
        if (!open) return late?.(value);
        open = false;
        stop();
        return resolve(value);
      },
      (error: unknown) => {
        if (!open) return;
        open = false;
        stop();
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}
