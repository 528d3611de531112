import type { z } from "zod";
import { DirectiveError, shown } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { Registry } from "./registry.ts";
import type { Directive } from "./types.ts";
import { standardRegistry } from "./verbs/index.ts";

export interface ParseOptions {
  registry?: Registry | undefined;
  /** The field that held the array, for error messages. */
  param?: string | undefined;
}

/** Directives of a request's JSON, checked field by field. Throws a `DirectiveError` that names the first wrong field. */
export function parseDirectives(json: unknown, options: ParseOptions = {}): Directive[] {
  const { registry = standardRegistry, param = "directives" } = options;
  if (json === null || json === undefined) return [];
  if (!Array.isArray(json)) throw new DirectiveError("directive_invalid", `Expected an array of directives; got ${shown(json)}.`, param);
  if (json.length > LIMITS.directives) {
    throw new DirectiveError("directive_limit", `Expected at most ${LIMITS.directives} directives; got ${json.length}.`, param);
  }
  return json.map((item, index) => parseDirective(item, registry, `${param}[${index}]`));
}

/** One directive of a request, or of another form of the grammar. */
export function parseDirective(item: unknown, registry: Registry, param: string): Directive {
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    throw new DirectiveError("directive_invalid", `Expected an object like {"op": "drop", …}; got ${shown(item)}.`, param);
  }
  const op = (item as { op?: unknown }).op;
  const verb = typeof op === "string" ? registry.get(op) : undefined;
  if (!verb) {
    const known = registry.list().map(({ name }) => `"${name}"`);
    throw new DirectiveError("directive_unknown", `Expected one of ${known.join(", ")}; got ${shown(op)}.`, `${param}.op`);
  }
  const parsed = verb.schema.safeParse(item);
  if (parsed.success) return parsed.data;
  const { path, message } = deepest(parsed.error.issues, item);
  throw new DirectiveError("directive_invalid", `${message} ${received(item, path)}`, paramAt(param, path));
}

/** The issue that is most worth telling: of a union, the one of the member that the value resembles. */
function deepest(issues: readonly z.core.$ZodIssue[], value: unknown): { path: PropertyKey[]; message: string } {
  const issue = issues[0]!;
  if (issue.code === "unrecognized_keys") {
    return { path: [...issue.path, issue.keys[0]!], message: `Unknown field "${issue.keys[0]}"; leave it out or correct its name.` };
  }
  if (issue.code !== "invalid_union") return { path: [...issue.path], message: `${issue.message}.` };
  const member = memberLike(issue.errors, at(value, issue.path));
  if (!member) return { path: [...issue.path], message: `${issue.message}.` };
  const inner = deepest(member, at(value, issue.path));
  return { path: [...issue.path, ...inner.path], message: inner.message };
}

/** The union member that the value resembles most: it lacks no field at the top, and complains of something as deep inside as can be. */
function memberLike(errors: readonly (readonly z.core.$ZodIssue[])[], value: unknown): readonly z.core.$ZodIssue[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const misses = (issue: z.core.$ZodIssue) => issue.path.length === 1 && at(value, issue.path) === undefined;
  const candidates = errors.filter((issues) => !issues.some((issue) => misses(issue) || isOtherType(issue)));
  return candidates.reduce<readonly z.core.$ZodIssue[] | undefined>((best, issues) => (best && depth(best) >= depth(issues) ? best : issues), undefined);
}

/** The value is no object, or not the one that the member takes. */
const isOtherType = (issue: z.core.$ZodIssue): boolean => issue.path.length === 0 && issue.code !== "unrecognized_keys";

const depth = (issues: readonly z.core.$ZodIssue[]): number => issues[0]!.path.length;

function at(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => (typeof inner === "object" && inner !== null ? (inner as Record<PropertyKey, unknown>)[key] : undefined), value);
}

function received(item: unknown, path: readonly PropertyKey[]): string {
  const value = at(item, path);
  return value === undefined ? "Nothing came." : `Got ${shown(value)}.`;
}

function paramAt(param: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => (typeof key === "number" ? `${text}[${key}]` : `${text}.${String(key)}`), param);
}
