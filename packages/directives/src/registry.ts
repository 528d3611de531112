import type { z } from "zod";
import { DirectiveError } from "./errors.ts";
import type { Lowered } from "./operations.ts";
import type { LowerContext } from "./resolve.ts";
import type { Directive } from "./types.ts";

/** A directive verb: one file. Nothing outside of it knows its name. */
export interface Verb<Args extends Directive = Directive> {
  /** The `op` of its directives. */
  readonly name: string;
  /** Strict: unknown keys are errors. */
  readonly schema: z.ZodType<Args>;
  /** What it does, in a sentence or two, for people. */
  readonly documentation: string;
  /** Pure: the same context and arguments give the same operations. Throws `DirectiveError` by `context.fail`. */
  lower(context: LowerContext, args: Args): Lowered;
}

/** Keeps the arguments' type while the verb is written, and forgets it afterwards. */
export function defineVerb<Args extends Directive>(verb: Verb<Args>): Verb {
  return verb as unknown as Verb;
}

/** The verbs that a grammar knows. Immutable: `with` returns a new one. */
export class Registry {
  readonly #verbs: ReadonlyMap<string, Verb>;

  constructor(verbs: Iterable<Verb>) {
    const known = new Map<string, Verb>();
    for (const verb of verbs) {
      if (!/^[a-z][a-z0-9_]*$/.test(verb.name)) {
        throw new DirectiveError("verb_invalid", `A verb's name is made of a-z, 0-9 and _ and begins with a letter; got "${verb.name}".`);
      }
      if (known.has(verb.name)) {
        throw new DirectiveError("verb_invalid", `The verb "${verb.name}" is registered already; known: ${[...known.keys()].join(", ")}.`);
      }
      known.set(verb.name, verb);
    }
    this.#verbs = known;
  }

  get(name: string): Verb | undefined {
    return this.#verbs.get(name);
  }

  /** In the order of registration. */
  list(): readonly Verb[] {
    return [...this.#verbs.values()];
  }

  with(verbs: Iterable<Verb>): Registry {
    return new Registry([...this.list(), ...verbs]);
  }
}
