import type { Readable, Writable } from "node:stream";

/** What a command reads and writes; tests own theirs. */
export interface Streams {
  input: Readable;
  output: Writable;
  errors: Writable;
}

export const line = (stream: Writable, text: string): void => void stream.write(`${text}\n`);

const WIDTH = 30;
const QUIET_STEP = 0.25;

/** A bar that redraws itself on a terminal; elsewhere a line for each quarter. */
export class ProgressBar {
  private readonly stream: Writable & { isTTY?: boolean };
  private readonly label: string;
  private said = -1;

  constructor(stream: Writable, label: string) {
    this.stream = stream;
    this.label = label;
  }

  /** `fraction` from 0 to 1. */
  show(fraction: number): void {
    const percent = Math.floor(Math.min(Math.max(fraction, 0), 1) * 100);
    const step = this.stream.isTTY === true ? percent : Math.floor(fraction / QUIET_STEP);
    if (step === this.said) return;
    this.said = step;
    if (this.stream.isTTY !== true) return line(this.stream, `${this.label} ${percent} %`);
    const filled = Math.round((percent / 100) * WIDTH);
    this.stream.write(`\r${this.label} [${"█".repeat(filled)}${" ".repeat(WIDTH - filled)}] ${percent} %${percent === 100 ? "\n" : ""}`);
  }
}
