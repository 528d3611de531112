/** How far fetching a model is. */
export interface PullProgress {
  /** waiting: another process fetches the same model. */
  phase: "waiting" | "downloading" | "unpacking" | "verifying";
  /** Bytes done and to do in this phase; `total` is null where nobody knows. */
  bytes: number;
  total: number | null;
}

export type OnProgress = (progress: PullProgress) => void;

/** The part of a stream that the bar writes to. */
export interface ProgressOutput {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
}

const VERBS: Readonly<Record<PullProgress["phase"], string>> = {
  waiting: "waiting for another process that fetches",
  downloading: "fetching",
  unpacking: "unpacking",
  verifying: "verifying",
};

/** Bytes as people read them: 92.9 MB. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/**
 * A bar on one line of a terminal; on anything else (a log) one line a phase, and one for each tenth of the download. Call `done` at the end, also
 * after an error, so that what comes next begins on a line of its own.
 */
export function progressBar(title: string, output: ProgressOutput = process.stderr): { onProgress: OnProgress; done: () => void } {
  let shown = "";
  const show = (text: string) => {
    if (text === shown) return;
    if (output.isTTY === true) output.write(`\r${text.slice(0, (output.columns ?? 80) - 1)}\u001b[K`);
    else output.write(`${text}\n`);
    shown = text;
  };
  const onProgress: OnProgress = ({ phase, bytes, total }) => {
    const verb = `${VERBS[phase]} ${title}`;
    if (phase === "waiting") return show(verb);
    if (total === null || total === 0) return show(output.isTTY === true ? `${verb} ${formatBytes(bytes)}` : verb);
    const fraction = Math.min(bytes / total, 1);
    if (output.isTTY !== true && phase !== "downloading") return show(verb);
    if (output.isTTY !== true) return show(`${verb}: ${Math.floor(fraction * 10) * 10} % of ${formatBytes(total)}`);
    const filled = Math.round(fraction * 24);
    const bar = `${"█".repeat(filled)}${"░".repeat(24 - filled)}`;
    return show(`${verb} ${String(Math.floor(fraction * 100)).padStart(3)} % ${bar} ${formatBytes(total)}`);
  };
  return {
    onProgress,
    done: () => {
      if (output.isTTY === true && shown !== "") output.write("\n");
      shown = "";
    },
  };
}
