import type { z } from "zod";
import { ServerError, type ServerErrorCode } from "../errors.ts";
import type { ServerLimits } from "../limits.ts";
import { nearest } from "../nearest.ts";

/** The top-level fields that OpenAI does not have. A name that is nearly one of them is an error: ignored, it would edit nothing, silently. */
export const OWN_FIELDS = ["directives", "drop_message", "drop_rule", "reposition", "cache", "return_token_ids", "ignore_eos"] as const;

/** Verbs are no fields; someone who writes one at the top level means a directive. */
const VERBS = ["drop", "splice", "pin", "decay", "scratch"] as const;

export interface BodySpec<T> {
  schema: z.ZodType<T>;
  /** Top-level names that the schema knows. */
  fields: ReadonlySet<string>;
}

export interface Body<T> {
  value: T;
  /** The object as it came: presence of a field, even of a null one, means something. */
  raw: Readonly<Record<string, unknown>>;
  /** One sentence for each top-level field that was ignored. */
  warnings: string[];
}

export type BodyLimits = Pick<ServerLimits, "bodyDepthMax" | "bodyFieldsMax" | "bodyValuesMax">;

/** Checks a parsed JSON body. Throws a `ServerError` of kind `invalid` that names the field, what was expected and what came. */
export function readBody<T>(spec: BodySpec<T>, body: unknown, limits: BodyLimits): Body<T> {
  const raw = requireObject(body);
  requireSize(raw, limits);
  const warnings = Object.keys(raw)
    .filter((name) => !spec.fields.has(name))
    .map((name) => unknownField(name, spec.fields));
  return { value: parse(spec.schema, raw), raw, warnings };
}

/** Parses by a schema, or throws the first issue as a `ServerError`. `at` is where the value stands in the request. */
export function parse<T>(schema: z.ZodType<T>, value: unknown, at: readonly PropertyKey[] = []): T {
  const result = schema.safeParse(value, { reportInput: true });
  if (result.success) return result.data;
  throw issueError(deepest(result.error.issues), at);
}

/** `["directives", 2, "target"]` → `directives[2].target`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.map((key, index) => (typeof key === "number" ? `[${key}]` : `${index === 0 ? "" : "."}${String(key)}`)).join("");
}

/** A value as an error message shows it: short, on one line. */
export function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
}

function requireObject(body: unknown): Record<string, unknown> {
  if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw new ServerError("body_invalid", `the body must be a JSON object, got ${show(body)}`);
}

/** Fields that may hold as many numbers as fit into a body; their own check ends at the first wrong one. */
const ID_LISTS: ReadonlySet<string> = new Set(["prompt", "tokens"]);

/**
 * Refuses bodies that would cost more to check than to compute. Walks level by level, not by recursion, and stops at the first
 * excess: depth and number are what cannot be trusted.
 */
function requireSize(body: Record<string, unknown>, limits: BodyLimits): void {
  const fields = Object.keys(body).length;
  if (fields > limits.bodyFieldsMax) throw tooMuch(`has ${fields} fields`, `at most ${limits.bodyFieldsMax} are read`);
  let level: object[] = Object.entries(body).flatMap(([name, value]) => (isContainer(value) && !isIdList(name, value) ? [value] : []));
  let values = fields;
  for (let depth = 2; level.length > 0; depth++) {
    if (depth > limits.bodyDepthMax) throw tooMuch(`is nested more than ${limits.bodyDepthMax} levels deep`, "flatten it");
    const next: object[] = [];
    for (const container of level) {
      const inner: unknown[] = Array.isArray(container) ? container : Object.values(container);
      values += inner.length;
      if (values > limits.bodyValuesMax) throw tooMuch(`holds more than ${limits.bodyValuesMax} values`, "send fewer");
      for (const value of inner) if (isContainer(value)) next.push(value);
    }
    level = next;
  }
}

const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;

const isIdList = (name: string, value: object) => ID_LISTS.has(name) && Array.isArray(value) && value.every((item) => typeof item === "number");

const tooMuch = (what: string, remedy: string) => new ServerError("body_invalid", `the body ${what}; ${remedy}`);

function unknownField(name: string, fields: ReadonlySet<string>): string {
  const own = nearlyOwn(name);
  if (own !== null) {
    throw new ServerError("field_misspelled", `there is no field ${show(name)}; ${own} It is not ignored, because then nothing would be edited`, {
      param: name,
    });
  }
  const near = name.length > NAME_LENGTH_MAX ? null : nearest(name, fields, 2);
  return `The unknown field ${show(name)} was ignored.${near === null ? "" : ` The nearest known one is "${near}".`}`;
}

/** No field is nearly as long. */
const NAME_LENGTH_MAX = 64;

/** What to write instead of a name that nearly is one of ours; null when it is not near. */
function nearlyOwn(name: string): string | null {
  if (name.length > NAME_LENGTH_MAX) return null;
  const plain = name.replaceAll(/[^A-Za-z]/g, "").toLowerCase();
  if (plain === "") return null;
  for (const field of OWN_FIELDS) {
    const own = field.replaceAll("_", "");
    if (nearest(plain, [own], own.length > 5 ? 2 : 1) !== null) return `did you mean "${field}"?`;
  }
  const verb = nearest(plain, VERBS, 1);
  return verb !== null && plain.length >= 4 ? `write it as a directive: "directives": [{"op": "${verb}", …}].` : null;
}

interface Issue {
  code: string;
  path: readonly PropertyKey[];
  message: string;
  input?: unknown;
  keys?: readonly string[];
  errors?: readonly (readonly Issue[])[];
}

/** The issue of the alternative that got furthest: of `string | parts[]`, a wrong part is the error of the part. */
function deepest(issues: readonly z.core.$ZodIssue[]): Issue {
  const flat = (list: readonly Issue[], base: readonly PropertyKey[]): Issue[] =>
    list.flatMap((issue) => {
      const path = [...base, ...issue.path];
      const inner = (issue.errors ?? []).flatMap((branch) => flat(branch, path)).filter((candidate) => candidate.path.length > path.length);
      return inner.length > 0 ? inner : [{ ...issue, path }];
    });
  const [first, ...rest] = flat(issues as readonly Issue[], []);
  if (first === undefined) throw new ServerError("internal_error", "a schema failed without an issue");
  return rest.reduce((best, issue) => (issue.path[0] === best.path[0] && issue.path.length > best.path.length ? issue : best), first);
}

function issueError(issue: Issue, at: readonly PropertyKey[]): ServerError {
  const key = issue.code === "unrecognized_keys" ? issue.keys?.[0] : undefined;
  const path = [...at, ...issue.path, ...(key === undefined ? [] : [key])];
  const param = pathText(path);
  if (key !== undefined) return invalid("field_unknown", `${param}: there is no such key here; remove it`, param);
  if (issue.input === undefined) return invalid("field_missing", `${param} is missing: ${issue.message}`, param);
  return invalid("field_invalid", `${param}: ${issue.message}, got ${show(issue.input)}`, param);
}

const invalid = (code: ServerErrorCode, message: string, param: string) => new ServerError(code, message, { param });
