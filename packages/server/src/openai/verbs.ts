import { AKV_FIELDS, parseDirectives, type Directive, type Log, type Registry } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";

/** The fields whose presence, whatever their value, makes a context request. */
export const CONTEXT_FIELDS = ["directives", ...AKV_FIELDS] as const;

/**
 * Directives of a body in every form. Native ones come first, so that their index in the report is that in the request; `others` are
 * those that a dialect came to (AKV's in a chat, read before it was rendered).
 */
export function directivesOf(log: Log, raw: Readonly<Record<string, unknown>>, others: readonly Directive[], registry: Registry): Directive[] {
  const native = parseDirectives(raw["directives"], { registry });
  if (log.chat !== undefined) return [...native, ...others];
  const field = AKV_FIELDS.find((name) => !isEmpty(raw[name]));
  if (field === undefined) return native;
  throw new ServerError("field_invalid", `${field}: a completions body has no messages; use "directives" in token form`, { param: field });
}

/** Absent, null, {} and [] ask for nothing. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);
}
