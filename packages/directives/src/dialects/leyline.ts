import { z } from "zod";
import { DirectiveError, shown } from "../errors.ts";
import type { Directive, Log } from "../types.ts";
import { lowerAll } from "../lower.ts";
import type { Registry } from "../registry.ts";
import { standardRegistry } from "../verbs/index.ts";
import type { DialectReading } from "./messages.ts";

const tupleSchema = z.union([
  z.tuple([z.int().min(0), z.int().min(0), z.array(z.int().min(0)), z.enum(["AMORTIZE", "FORGET"]).optional()]),
  z.strictObject({ s_start: z.int().min(0), s_end: z.int().min(0), R: z.array(z.int().min(0)), m: z.enum(["AMORTIZE", "FORGET"]).optional() }),
]);

/** Leyline's splice directive D = (s_start, s_end, R, m). */
export interface LeylineTuple {
  s_start: number;
  s_end: number;
  R: number[];
  m: "AMORTIZE" | "FORGET";
}

/**
 * Leyline's tuples as directives: half-open spans in coordinates of the original prompt, all applied together before the answer, so at
 * the end of the log. They may be arrays or objects; the mode defaults to AMORTIZE.
 */
export function readLeyline(json: unknown, param = "leyline"): Directive[] {
  if (!Array.isArray(json)) throw new DirectiveError("directive_invalid", `Expected a list of (s_start, s_end, R, m); got ${shown(json)}.`, param);
  return json.map((item, i): Directive => {
    const at = `${param}[${i}]`;
    const parsed = tupleSchema.safeParse(item);
    if (!parsed.success) {
      throw new DirectiveError("directive_invalid", `Expected [s_start, s_end, [ids], "AMORTIZE" | "FORGET"] or the same as an object; got ${shown(item)}.`, at);
    }
    const { data } = parsed;
    const [start, end, tokens, mode] = Array.isArray(data) ? data : [data.s_start, data.s_end, data.R, data.m];
    return { op: "splice", target: { tokens: [start, end] }, with: tokens, mode: mode === "FORGET" ? "forget" : "amortize", source: "leyline", param: at };
  });
}

/** Directives as Leyline's tuples. It has neither boundaries nor a way to hide without closing the gap: what is lost by that is said. */
export function writeLeyline(log: Log, directives: readonly Directive[], registry: Registry = standardRegistry): DialectReading<LeylineTuple[]> {
  const losses: string[] = [];
  const value: LeylineTuple[] = [];
  lowerAll(registry, log, directives).forEach(({ at, operations }, index) => {
    const name = `directives[${index}] (${directives[index]!.op})`;
    const lose = (what: string) => losses.push(`${name}: ${what}`);
    if (at < log.header) lose("the boundary is lost; Leyline applies everything at the end of the prompt");
    for (const operation of operations) {
      if (operation.kind === "hide") {
        for (const [start, end] of operation.ranges) value.push({ s_start: start, s_end: end, R: [], m: "AMORTIZE" });
        if (!operations.some(({ kind }) => kind === "compact")) lose("positions behind the drop close up; Leyline knows no gap");
      } else if (operation.kind === "replace") {
        value.push({ s_start: operation.target[0], s_end: operation.target[1], R: [...operation.tokens], m: "AMORTIZE" });
        if (operation.refresh > 0) lose("cells behind the target are not computed again");
      } else if (operation.kind === "edit") {
        value.push({ s_start: operation.target[0], s_end: operation.target[1], R: [...operation.tokens], m: "FORGET" });
        lose("nothing is erased; Leyline only prefills again");
      } else if (operation.kind === "retain") lose("retention is lost");
    }
  });
  return { value: value.toSorted((a, b) => a.s_start - b.s_start), losses };
}
