/** Weight of the newest of many observations. */
const NEWEST = 0.25;

/** How long something takes, as measured: an exponentially weighted mean of time against amount. */
export class RateMeter {
  #units = 0;
  #ms = 0;

  observe(units: number, ms: number): void {
    if (!(units > 0) || !(ms >= 0)) return;
    this.#units += NEWEST * (units - this.#units);
    this.#ms += NEWEST * (ms - this.#ms);
  }

  /** 0 until something was measured: what was never tried is tried. */
  msFor(units: number): number {
    return this.#units === 0 ? 0 : (units * this.#ms) / this.#units;
  }

  /** Units in a second; 0 until something was measured. */
  get perSecond(): number {
    return this.#ms === 0 ? 0 : (1_000 * this.#units) / this.#ms;
  }
}
