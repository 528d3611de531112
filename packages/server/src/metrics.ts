type Labels = Readonly<Record<string, string>>;

interface Family {
  help: string;
  type: "counter" | "gauge" | "histogram";
  samples: Map<string, number>;
}

interface Histogram {
  bounds: readonly number[];
  counts: number[];
  sum: number;
}

/** Seconds; from a cached first token to a long prefill on a slow machine. */
const SECONDS_BOUNDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300] as const;

/**
 * Counters, gauges and histograms in Prometheus' text format. Token counts are per token and keep apart what was read, moved, computed
 * and skipped, so that a hit rate can be formed over the whole prompt: (cached + repositioned) / prompt.
 */
export class Metrics {
  private readonly families = new Map<string, Family>();
  private readonly histograms = new Map<string, { help: string; series: Map<string, Histogram> }>();

  add(name: string, help: string, value: number, labels: Labels = {}): void {
    const samples = this.family(name, help, "counter").samples;
    const key = labelText(labels);
    samples.set(key, (samples.get(key) ?? 0) + value);
  }

  set(name: string, help: string, value: number, labels: Labels = {}): void {
    this.family(name, help, "gauge").samples.set(labelText(labels), value);
  }

  /** A counter that is kept elsewhere, at what it stands at. */
  count(name: string, help: string, value: number): void {
    this.family(name, help, "counter").samples.set("", value);
  }

  observeSeconds(name: string, help: string, seconds: number, labels: Labels = {}): void {
    const family = this.histograms.get(name) ?? { help, series: new Map<string, Histogram>() };
    this.histograms.set(name, family);
    const key = labelText(labels);
    const histogram = family.series.get(key) ?? { bounds: SECONDS_BOUNDS, counts: SECONDS_BOUNDS.map(() => 0).concat(0), sum: 0 };
    family.series.set(key, histogram);
    const index = histogram.bounds.findIndex((bound) => seconds <= bound);
    const bucket = index === -1 ? histogram.bounds.length : index;
    histogram.counts[bucket] = (histogram.counts[bucket] ?? 0) + 1;
    histogram.sum += seconds;
  }

  render(): string {
    const lines: string[] = [];
    for (const [name, family] of this.families) {
      lines.push(`# HELP ${name} ${family.help}`, `# TYPE ${name} ${family.type}`);
      for (const [labels, value] of family.samples) lines.push(`${name}${braced(labels)} ${value}`);
    }
    for (const [name, { help, series }] of this.histograms) {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} histogram`);
      for (const [labels, histogram] of series) lines.push(...histogramLines(name, labels, histogram));
    }
    return `${lines.join("\n")}\n`;
  }

  private family(name: string, help: string, type: Family["type"]): Family {
    const family = this.families.get(name) ?? { help, type, samples: new Map<string, number>() };
    this.families.set(name, family);
    return family;
  }
}

function histogramLines(name: string, labels: string, histogram: Histogram): string[] {
  const lines: string[] = [];
  const comma = labels === "" ? "" : ",";
  let total = 0;
  for (const [index, count] of histogram.counts.entries()) {
    total += count;
    lines.push(`${name}_bucket{${labels}${comma}le="${histogram.bounds[index] ?? "+Inf"}"} ${total}`);
  }
  lines.push(`${name}_sum${braced(labels)} ${histogram.sum}`, `${name}_count${braced(labels)} ${total}`);
  return lines;
}

const braced = (labels: string) => (labels === "" ? "" : `{${labels}}`);

const labelText = (labels: Labels) =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`)
    .join(",");
