import { AKV_FIELDS, parseDirectives, type Directive, type Log } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";

/** The fields whose presence, whatever their value, makes a context request. */
export const CONTEXT_FIELDS = ["directives", ...AKV_FIELDS] as const;

/** Verbs that this server carries out from request to answer. The language knows more; those are refused by name, never ignored. */
export const VERBS: readonly string[] = ["drop", "reposition", "splice"];

/**
 * Directives of a body in every form. Native ones come first, so that their index in the report is that in the request; `others` are
 * those that a dialect came to (AKV's in a chat, read before it was rendered).
 */
export function directivesOf(log: Log, raw: Readonly<Record<string, unknown>>, others: readonly Directive[]): Directive[] {
  const native = parseDirectives(raw["directives"]);
  for (const [index, directive] of native.entries()) refuseUnbuilt(directive, `directives[${index}]`);
  if (log.chat !== undefined) return [...native, ...others];
  const field = AKV_FIELDS.find((name) => !isEmpty(raw[name]));
  if (field === undefined) return native;
  throw new ServerError("field_invalid", `${field}: a completions body has no messages; use "directives" in token form`, { param: field });
}

/** Absent, null, {} and [] ask for nothing. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);
}

function refuseUnbuilt({ op, mode }: Directive, at: string): void {
  if (!VERBS.includes(op)) {
    throw new ServerError("unsupported", `${at}.op: "${op}" is not supported yet; this version carries out ${VERBS.join(", ")}`, { param: `${at}.op` });
  }
  if (mode === "forget") {
    throw new ServerError("unsupported", `${at}.mode: "forget" is not supported yet, because nothing erases what was computed with the target; use "amortize" or "refresh"`, {
      param: `${at}.mode`,
    });
  }
}
