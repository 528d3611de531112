import type { Boundary, Directive, Log, Part, Range, Target } from "../types.ts";

/** A seeded generator (mulberry32): the seed alone decides what a check sees. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** An integer in [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.unit() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(0, items.length - 1)]!;
  }
}

const ROLES = ["system", "user", "assistant", "tool", "assistant"];

/** A chat of a few messages whose first half is "thinking" and whose second is "content"; texts are names of tokens. */
export function randomChat(random: Random): Log {
  const lengths = Array.from({ length: random.int(2, 9) }, () => random.int(1, 7));
  const owners = lengths.flatMap((length, message) => Array.from({ length }, () => message));
  const header = owners.length;
  owners.push(lengths.length, lengths.length);
  const startOf = (message: number) => owners.indexOf(message);
  const part = (message: number, name: Part): Range[] => {
    const [start, length] = [startOf(message), lengths[message]!];
    const middle = start + (length >> 1);
    if (name === "thinking") return middle > start ? [[start, middle]] : [];
    return name === "content" ? [[middle, start + length]] : [];
  };
  return {
    tokens: Int32Array.from(owners, (_, i) => 100 + i),
    header,
    contextLength: 4_096,
    vocabulary: 10_000,
    tokenize: (text) => Array.from(text, (character) => character.codePointAt(0)! % 10_000),
    chat: {
      messages: lengths.length,
      owners: Int32Array.from(owners),
      roles: lengths.map((_, message) => ROLES[message % ROLES.length]!),
      part,
      text: (message, _exact, occurrence) => (occurrence === 1 ? [[startOf(message), startOf(message) + 1]] : null),
    },
  };
}

/** A directive that fits a JSON Schema, and as a rule the log: target and boundary are chosen to. */
export function randomDirective(random: Random, schema: Readonly<Record<string, unknown>>, log: Log): Directive {
  const properties = schema.properties as Record<string, Record<string, unknown>>;
  const required = new Set(schema.required as string[]);
  const boundary = random.chance(0.7) ? randomBoundary(random, log) : undefined;
  const directive: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    if (!required.has(name) && random.chance(0.4)) continue;
    if (name === "target") directive.target = randomTarget(random, log, boundary);
    else if (name !== "at") directive[name] = randomValue(random, property);
  }
  if ("at" in properties && boundary) directive.at = boundary;
  return directive as Directive;
}

function randomBoundary(random: Random, log: Log): Boundary {
  return random.chance(0.5) ? { message: random.int(0, log.chat!.messages - 1) } : { token: random.int(1, log.header) };
}

function randomTarget(random: Random, log: Log, boundary: Boundary | undefined): Target {
  const { owners, messages } = log.chat!;
  const end = boundary === undefined ? log.header : "token" in boundary ? boundary.token : owners.indexOf(boundary.message + 1);
  const whole = boundary === undefined ? messages : "message" in boundary ? boundary.message + 1 : owners[boundary.token]!;
  const kind = whole === 0 ? 0 : random.int(0, 3);
  if (kind === 1) return { messages: [random.int(0, whole - 1)] };
  if (kind === 2) return { messages: [random.int(0, whole - 1)], part: random.pick<Part>(["thinking", "content"]) };
  if (kind === 3) return { text: { message: random.int(0, whole - 1), exact: "x" } };
  const start = random.int(0, end - 1);
  return { tokens: [start, random.int(start + 1, end)] };
}

/** Some value of a JSON Schema, small where it may be large. */
function randomValue(random: Random, schema: Readonly<Record<string, unknown>>): unknown {
  const options = (schema.anyOf ?? schema.oneOf) as Record<string, unknown>[] | undefined;
  if (options) return randomValue(random, random.pick(options));
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.enum)) return random.pick(schema.enum as unknown[]);
  switch (schema.type) {
    case "integer":
    case "number":
      return randomNumber(random, schema);
    case "boolean":
      return random.chance(0.5);
    case "string":
      return random.pick(["x", "[elided]", "two words"]).slice(0, (schema.maxLength as number | undefined) ?? Infinity);
    case "array":
      return Array.from({ length: random.int((schema.minItems as number | undefined) ?? 0, Math.min(4, (schema.maxItems as number | undefined) ?? 4)) }, () => randomValue(random, (schema.items ?? { type: "integer" }) as Record<string, unknown>));
    case "object":
      return Object.fromEntries(Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>).map(([name, property]) => [name, randomValue(random, property)]));
    default:
      return null;
  }
}

function randomNumber(random: Random, schema: Readonly<Record<string, unknown>>): number {
  const low = (schema.minimum as number | undefined) ?? ((schema.exclusiveMinimum as number | undefined) ?? -1) + 1;
  return random.int(low, Math.min(low + 6, (schema.maximum as number | undefined) ?? low + 6));
}
