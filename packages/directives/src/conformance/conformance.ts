import { DirectiveError } from "../errors.ts";
import { fold } from "../fold.ts";
import { verbJsonSchema } from "../json-schema.ts";
import type { Lowered } from "../operations.ts";
import { parseDirectives } from "../parse.ts";
import { planDirectives } from "../plan.ts";
import type { Registry, Verb } from "../registry.ts";
import { Resolver } from "../resolve.ts";
import { parseText, printText } from "../text.ts";
import type { Directive, Fold, Log } from "../types.ts";
import { standardRegistry } from "../verbs/index.ts";
import { checkFold } from "./invariants.ts";
import { Random, randomChat, randomDirective } from "./random.ts";

export interface ConformanceOptions {
  /** The verbs beside which it must stand. It is added to them. */
  registry?: Registry | undefined;
  /** Random cases of each check. */
  cases?: number | undefined;
  seed?: number | undefined;
}

/** One property of a verb. `run` throws with the case that broke it. */
export interface ConformanceCheck {
  name: string;
  run(): void;
}

/**
 * What every verb must hold to, as checks for any test runner:
 *
 *     for (const { name, run } of conformance(verb)) test(name, run);
 */
export function conformance(verb: Verb, { registry = standardRegistry, cases = 300, seed = 1 }: ConformanceOptions = {}): ConformanceCheck[] {
  const own = new Suite(verb, registry.get(verb.name) ? registry : registry.with([verb]), cases, seed);
  return [
    { name: `${verb.name} is documented: a sentence, a description of each field, examples that are read`, run: () => own.documented() },
    { name: `${verb.name} refuses unknown fields by name`, run: () => own.strict() },
    { name: `${verb.name} comes back from its text form`, run: () => own.roundTrip() },
    { name: `${verb.name} is pure and deterministic`, run: () => own.pure() },
    { name: `${verb.name} lowers to a number of operations that its directive's size bounds`, run: () => own.bounded() },
    { name: `${verb.name} folds canonically: the order of directives changes nothing, no effect makes no event`, run: () => own.canonical() },
    { name: `${verb.name} is atomic: a refusal names its own directive and changes nothing`, run: () => own.atomic() },
    { name: `${verb.name} stands beside every other verb`, run: () => own.composable() },
    { name: `${verb.name} is costed before the fact`, run: () => own.costed() },
  ];
}

class Suite {
  readonly #verb: Verb;
  readonly #registry: Registry;
  readonly #cases: number;
  readonly #seed: number;
  readonly #json: Record<string, unknown>;

  constructor(verb: Verb, registry: Registry, cases: number, seed: number) {
    this.#verb = verb;
    this.#registry = registry;
    this.#cases = cases;
    this.#seed = seed;
    this.#json = verbJsonSchema(verb.schema);
  }

  documented(): void {
    const { documentation, examples, name } = this.#verb;
    if (documentation.length < 20 || !/[.!]$/.test(documentation)) throw new Error("documentation must be a sentence");
    const read = parseDirectives(examples, { registry: this.#registry });
    if (read.length === 0 || read.some(({ op }) => op !== name)) throw new Error("examples must be directives of the verb");
    for (const [field, schema] of Object.entries(this.#json.properties as Record<string, { description?: string; const?: unknown }>)) {
      if (field !== "op" && !schema.description) throw new Error(`field "${field}" has no description (use .describe)`);
    }
  }

  strict(): void {
    const [example] = this.#verb.examples;
    this.#refused({ ...example, surprise: 1 }, "surprise");
    this.#refused({ ...example, source: "forged" }, "source");
    for (const field of (this.#json.required as string[]).filter((name) => name !== "op")) {
      const { [field]: _left, ...rest } = example;
      this.#refused(rest, field);
    }
  }

  roundTrip(): void {
    const options = { registry: this.#registry };
    const all = [...this.#verb.examples, ...this.#each((_log, directive) => directive)];
    for (const directive of parseDirectives(all.slice(0, 1_000), options)) {
      const text = printText([directive], options);
      if (text.includes("\n")) throw new Error(`${text} takes more than a line`);
      same(parseText(text, options), [directive], `text form of ${JSON.stringify(directive)}`);
    }
  }

  pure(): void {
    const accepted = this.#each((log, directive) => {
      const before = JSON.stringify([directive, [...log.tokens]]);
      const [first, second] = [this.#lower(log, deepFreeze(directive)), this.#lower(log, directive)];
      same(first, second, `two lowerings of ${before}`);
      same(JSON.stringify([directive, [...log.tokens]]), before, "directive and log after lowering");
      return first === null ? 0 : 1;
    });
    const share = accepted.filter((count) => count === 1).length / accepted.length;
    if (share < 0.2) throw new Error(`only ${Math.round(100 * share)} % of random directives were accepted: the checks would see nothing`);
  }

  bounded(): void {
    this.#each((log, directive) => {
      const lowered = this.#lower(log, directive);
      const size = 8 + log.chat!.messages + JSON.stringify(directive).length;
      if (lowered && lowered.operations.length > size) throw new Error(`${lowered.operations.length} operations of ${JSON.stringify(directive)}`);
    });
  }

  canonical(): void {
    this.#each((log, directive, random) => {
      const others = this.#others(random, log);
      const straight = this.#fold(log, [directive, ...others]);
      if (!straight) return;
      const reversed = this.#fold(log, [...others.toReversed(), directive])!;
      same(spelled(reversed), spelled(straight), `fold of ${JSON.stringify([directive, ...others])} in reverse order`);
      if (straight.outcomes[0]!.status !== "no_effect") return;
      same(spelled(this.#fold(log, others)!), spelled(straight), `fold without ${JSON.stringify(directive)}, which has no effect`);
    });
  }

  atomic(): void {
    this.#each((log, directive) => {
      const wrong: Directive = { ...directive, at: { token: log.tokens.length + 1 } };
      const first = this.#fold(log, [directive]);
      try {
        fold(log, [directive, wrong], { registry: this.#registry });
      } catch (error) {
        if (!(error instanceof DirectiveError)) throw error;
        const named = error.param?.startsWith("directives[1]") || error.param?.startsWith("directives[0]");
        if (!named) throw new Error(`a refusal of ${JSON.stringify(wrong)} names ${error.param}`, { cause: error });
      }
      const again = this.#fold(log, [directive]);
      same(again && spelled(again), first && spelled(first), `fold of ${JSON.stringify(directive)} after a refusal`);
    });
  }

  composable(): void {
    this.#each((log, directive, random) => {
      const others = this.#others(random, log);
      const folded = this.#fold(log, [...others, directive]);
      if (!folded) return;
      checkFold(log, folded);
      const previous = this.#fold(log, others) ?? undefined;
      same(spelled(fold(log, [...others, directive], { registry: this.#registry, previous })), spelled(folded), "fold that goes on from one without the verb");
    });
  }

  costed(): void {
    this.#each((log, directive) => {
      const folded = this.#fold(log, [directive]);
      if (!folded) return;
      const { directives, cost } = planDirectives(folded, { computed: folded.tokens.length, steps: 1 });
      for (const value of [cost.tokens, directives[0]!.cost.tokens, directives[0]!.text_edit.tokens]) {
        if (!Number.isFinite(value) || value < 0) throw new Error(`cost ${value} of ${JSON.stringify(directive)}`);
      }
    });
  }

  /** Calls `check` with random logs and directives of the verb; tells the case when it throws. */
  #each<T>(check: (log: Log, directive: Directive, random: Random) => T): T[] {
    return Array.from({ length: this.#cases }, (_, i) => {
      const random = new Random(this.#seed * 1_000_003 + i);
      const log = randomChat(random);
      const directive = randomDirective(random, this.#json, log);
      try {
        return check(log, directive, random);
      } catch (error) {
        throw new Error(`case ${i} of seed ${this.#seed}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
      }
    });
  }

  #others(random: Random, log: Log): Directive[] {
    const verbs = this.#registry.list();
    return Array.from({ length: random.int(0, 3) }, () => randomDirective(random, verbJsonSchema(random.pick(verbs).schema), log));
  }

  /** Null where the directive is refused, as it may be, by a `DirectiveError`. */
  #lower(log: Log, directive: Directive): Lowered | null {
    return orNull(() => this.#verb.lower(new Resolver(log).context(directive, 0), directive));
  }

  #fold(log: Log, directives: readonly Directive[]): Fold | null {
    return orNull(() => fold(log, directives, { registry: this.#registry }));
  }

  #refused(json: unknown, field: string): void {
    const error = orError(() => parseDirectives([json], { registry: this.#registry }));
    if (!error?.param?.includes(field)) throw new Error(`${JSON.stringify(json)} must be refused by "${field}"; got ${error?.param ?? "no refusal"}`);
  }
}

function orError(run: () => unknown): DirectiveError | null {
  try {
    run();
    return null;
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
}

function orNull<T>(run: () => T): T | null {
  let value: T | null = null;
  orError(() => (value = run()));
  return value;
}

/** What a fold says, in a form that compares. */
function spelled({ tokens, events, births, nextPosition, visible, forgotten }: Fold): unknown {
  const keys = events.map(({ at, cell, key }) => [at, cell, key]);
  return [[...tokens], keys, births.map(({ cell, length, position, view }) => [cell, length, position, view]), nextPosition, visible, forgotten];
}

function same(actual: unknown, expected: unknown, what: string): void {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: expected ${right?.slice(0, 300)}, got ${left?.slice(0, 300)}`);
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
