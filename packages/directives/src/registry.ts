import type { z } from "zod";
import { DirectiveError } from "./errors.ts";
import type { Lowered } from "./operations.ts";
import type { LowerContext } from "./resolve.ts";
import type { TextForm } from "./text-form.ts";
import type { Directive } from "./types.ts";

/** A directive verb: one file. Nothing outside of it knows its name. */
export interface Verb<Args extends Directive = Directive> {
  /** The `op` of its directives. */
  readonly name: string;
  /** A strict object: unknown keys are errors. Its fields carry descriptions. */
  readonly schema: z.ZodType<Args>;
  /** What it does, in a sentence or two, for people. */
  readonly documentation: string;
  /** At least one directive as a request writes it. */
  readonly examples: readonly [Args, ...Args[]];
  /** How its own fields are written in the text form. Absent: each as its name and a JSON value. */
  readonly text?: TextForm | undefined;
  /** Pure: the same context and arguments give the same operations. Refuses by `context.fail`. */
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

/** The verbs that a module (an npm package named by `--verbs`) exports as `verbs`, or as its default. Throws where there are none. */
export function verbsOf(module: Readonly<Record<string, unknown>>, name: string): readonly Verb[] {
  const exported = module.verbs ?? module.default;
  const verbs: unknown[] = Array.isArray(exported) ? exported : [exported];
  const wrong = verbs.findIndex((verb) => !isVerb(verb));
  if (wrong < 0 && verbs.length > 0) return verbs as Verb[];
  throw new DirectiveError("verb_invalid", `Expected "${name}" to export an array "verbs" of verbs; entry ${Math.max(0, wrong)} lacks a name, schema, documentation, examples or lower.`);
}

function isVerb(value: unknown): value is Verb {
  if (typeof value !== "object" || value === null) return false;
  const { name, schema, documentation, examples, lower } = value as Record<keyof Verb, unknown>;
  const parses = typeof (schema as { safeParse?: unknown } | undefined)?.safeParse === "function";
  return typeof name === "string" && parses && typeof documentation === "string" && Array.isArray(examples) && typeof lower === "function";
}
