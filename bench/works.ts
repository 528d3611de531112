import type { CellDtype, KernelLevel } from "@palimpsest/kernels-cuda";
import { mainThreadShare, metadataMicroseconds } from "./engine-works.ts";
import type { Roof } from "./machine.ts";
import type { Probe } from "./probe.ts";
import type { Yardstick } from "./yardstick/client.ts";

/** A model, a type of cells and a level, on both sides. */
export interface Subject {
  name: string;
  model: string;
  /** Every matrix of the model in another type, requantised by ourselves. */
  requantized?: string;
  cells: CellDtype;
  level: "native" | "avx2";
}

/** What the figure of a row is made of: medians over the rounds. */
export interface Facts {
  /** Milliseconds, or whatever `ours` gave. */
  ours: number;
  theirs: number;
  /** The same of another row. */
  of: (name: string) => number;
  roof: () => Roof;
  /** Bytes of weights and multiply-adds of the last step of another row, as the step counted them. */
  counts: (name: string) => { weightBytes: number; multiplications: number };
}

/** A row of the table. */
export interface Work {
  name: string;
  subject: Subject;
  /** Tokens that one measurement computes; 0 where `ours` gives no time. */
  tokens: number;
  ours: (probe: Probe) => Promise<number>;
  theirs?: (yardstick: Yardstick) => Promise<number>;
  /** Rows that the figure is made of as well. */
  needs?: readonly string[];
  /** What the target is for. Without it: llama.cpp's time divided by ours. */
  figure?: (facts: Facts) => number;
  unit?: string;
  target?: { must: number; aim: number; atMost?: boolean };
}

const DEPTH = 6144;
const SMOL: Subject = { name: "SmolLM2 Q4_1", model: "smollm2-135m", cells: "f16", level: "native" };
const SMOL_Q8: Subject = { ...SMOL, name: "SmolLM2 Q8_0", requantized: "Q8_0" };
const SMOL_Q8_CELLS: Subject = { ...SMOL_Q8, name: "SmolLM2 Q8_0 with q8_0 cells", cells: "q8_0" };
const QWEN: Subject = { ...SMOL, name: "Qwen2.5-Coder-0.5B Q4_K_M", model: "qwen2.5-coder-0.5b" };
const SMOL_AVX2: Subject = { ...SMOL, name: "SmolLM2 Q4_1 at AVX2", level: "avx2" };

const prefill = (subject: Subject, rows: number, depth: number, must: number, aim: number): Work => ({
  name: `${subject.name}: prefill ${rows}${depth > 0 ? ` behind ${depth}` : ""}`,
  subject,
  tokens: rows,
  ours: (probe) => probe.prefill(rows, depth),
  theirs: (yardstick) => yardstick.prefill(rows, depth),
  target: { must, aim },
});

const decode = (subject: Subject, tokens: number, depth: number, must: number, aim: number): Work => ({
  name: `${subject.name}: decode behind ${depth}`,
  subject,
  tokens,
  ours: (probe) => probe.decode(tokens, depth),
  theirs: (yardstick) => yardstick.decode(tokens, depth),
  target: { must, aim },
});

const PREFILL = prefill(SMOL, 512, 0, 4, 5);
const DECODE = decode(SMOL, 48, 16, 1.5, 1.9);
/** Milliseconds of one decode step. */
const stepOf = (facts: Facts) => facts.of(DECODE.name) / DECODE.tokens;

const ONE_SHIFT: Work = { name: `${SMOL.name}: decode behind ${DEPTH}, 1 shift`, subject: SMOL, tokens: 12, ours: (probe) => probe.decodeShifted(12, DEPTH, 1) };
const shifts = (pieces: number, target?: Work["target"]): Work => ({
  name: `${SMOL.name}: decode behind ${DEPTH}, ${pieces} shifts`,
  subject: SMOL,
  tokens: 12,
  ours: (probe) => probe.decodeShifted(12, DEPTH, pieces),
  needs: [ONE_SHIFT.name],
  figure: (facts) => facts.ours / facts.of(ONE_SHIFT.name),
  unit: "× the time of one shift",
  ...(target && { target }),
});

/** Rows that compute nothing themselves. */
const nothing = () => Promise.resolve(Number.NaN);

/** What issue 5 asks of kernels and issue 4 of the whole, in the order in which it is run: rows of one subject follow each other. */
export const WORKS: readonly Work[] = [
  PREFILL,
  {
    name: `${SMOL.name}: prefill 512 as share of the int8 rate`,
    subject: SMOL,
    tokens: 0,
    ours: nothing,
    needs: [PREFILL.name],
    figure: (facts) => (100 * 2 * facts.counts(PREFILL.name).multiplications) / 1e6 / facts.of(PREFILL.name) / facts.roof().int8Gops,
    unit: "%",
    target: { must: 16, aim: 30 },
  },
  DECODE,
  {
    name: `${SMOL.name}: decode as share of the read bandwidth`,
    subject: SMOL,
    tokens: 0,
    ours: nothing,
    needs: [DECODE.name],
    figure: (facts) => (100 * facts.counts(DECODE.name).weightBytes) / 1e6 / stepOf(facts) / facts.roof().readGBs,
    unit: "%",
    target: { must: 25, aim: 60 },
  },
  {
    name: `${SMOL.name}: 4 streams together`,
    subject: SMOL,
    tokens: 4 * 24,
    ours: (probe) => probe.decode(24, 16, 4),
    theirs: (yardstick) => yardstick.decode(24, 16, 4),
    needs: [DECODE.name],
    figure: (facts) => (4 * stepOf(facts)) / (facts.ours / 24),
    unit: "× the tokens of one",
    target: { must: 2.5, aim: 3.3 },
  },
  {
    name: `${SMOL.name}: drop 200 of 1024, reposition, next token`,
    subject: SMOL,
    tokens: 1,
    ours: (probe) => probe.shift(1024, 200),
    theirs: (yardstick) => yardstick.shift(1024, 200),
    needs: [DECODE.name],
    figure: (facts) => facts.ours / stepOf(facts),
    unit: "decode steps",
    target: { must: 2, aim: 1.3, atMost: true },
  },
  {
    name: `${SMOL.name}: main thread with 8 streams`,
    subject: SMOL,
    tokens: 0,
    ours: async (probe) => {
      const share = await mainThreadShare(probe.runtime);
      probe.forget();
      return share;
    },
    figure: (facts) => facts.ours,
    unit: "% of the steps' time",
    target: { must: 10, aim: 5, atMost: true },
  },
  {
    name: "reposition of 32,768 cells, 0 bytes moved",
    subject: SMOL,
    tokens: 0,
    ours: async (probe) => {
      await probe.shift(1024, 200);
      if (probe.counts?.bytesMoved !== 0) throw new Error("a reposition moved bytes");
      return Math.min(...Array.from({ length: 200 }, () => metadataMicroseconds(32_768, probe.runtime.pageSize)));
    },
    figure: (facts) => facts.ours,
    unit: "µs",
    target: { must: 100, aim: 50, atMost: true },
  },
  prefill(SMOL, 128, DEPTH, 2.6, 3),
  decode(SMOL, 12, DEPTH, 1.7, 2),
  ONE_SHIFT,
  shifts(16),
  shifts(256, { must: 1.3, aim: 1.1, atMost: true }),
  prefill(SMOL_Q8, 512, 0, 2.2, 2.4),
  decode(SMOL_Q8, 48, 16, 1.4, 1.6),
  prefill(SMOL_Q8, 128, DEPTH, 2.6, 3),
  decode(SMOL_Q8, 12, DEPTH, 1.7, 2),
  decode(SMOL_Q8_CELLS, 12, DEPTH, 1.7, 2.5),
  prefill(QWEN, 512, 0, 2.5, 3),
  decode(QWEN, 24, 16, 1.4, 1.6),
  prefill(SMOL_AVX2, 512, 0, 1.8, 2),
  decode(SMOL_AVX2, 48, 16, 1.1, 1.3),
];

export const levelOf = (subject: Subject): KernelLevel | "auto" => (subject.level === "avx2" ? "avx2" : "auto");
