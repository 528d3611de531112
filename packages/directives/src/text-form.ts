import type { Scanner } from "./scanner.ts";
import type { Directive } from "./types.ts";

/** How a verb's own fields (all but op, target and at) are written in the text form: `with "…" refresh 16`. */
export interface TextForm {
  /** The clauses that a directive needs, in the order in which they are printed. */
  print(directive: Directive): string[];
  /** For each word that may begin a clause: reads what follows the word, and gives the fields that it stands for. */
  readonly clauses: Readonly<Record<string, (scanner: Scanner) => Readonly<Record<string, unknown>>>>;
}

/** The form of a verb that has none of its own: each field as its name and a JSON value. */
export function plainForm(fields: readonly string[]): TextForm {
  return {
    print: (directive) => fields.filter((field) => directive[field] !== undefined).map((field) => `${field} ${JSON.stringify(directive[field])}`),
    clauses: Object.fromEntries(fields.map((field) => [field, (scanner: Scanner) => ({ [field]: scanner.json(`a JSON value for "${field}"`) })])),
  };
}
