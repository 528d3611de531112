import { AKV_FIELDS, parseDirectives, readAkv, Registry, standardRegistry, type Directive, type Log } from "@palimpsest/directives";
import { ServerError } from "../errors.ts";

/** Verbs that this server carries out from request to answer. The language knows more; those are refused by name, never ignored. */
export const VERBS: Registry = new Registry(standardRegistry.list().filter(({ name }) => name === "drop" || name === "reposition"));

/** The fields whose presence, whatever their value, makes a context request. */
export const CONTEXT_FIELDS = ["directives", ...AKV_FIELDS] as const;

/** Directives of a body in every form. Native ones come first, so that their index in the report is that in the request. */
export function directivesOf(log: Log, raw: Readonly<Record<string, unknown>>, compat: "akv" | undefined): Directive[] {
  const native = parseDirectives(raw["directives"]);
  for (const [index, { op }] of native.entries()) {
    if (VERBS.get(op) !== undefined) continue;
    const param = `directives[${index}].op`;
    const carried = VERBS.list().map(({ name }) => `"${name}"`).join(" and ");
    throw new ServerError("unsupported", `${param}: "${op}" is not supported: this version carries out ${carried}`, { param });
  }
  if (log.chat !== undefined) return [...native, ...readAkv(raw, { messages: log.chat.messages, compat })];
  const field = AKV_FIELDS.find((name) => raw[name] !== undefined && raw[name] !== null);
  if (field === undefined) return native;
  throw new ServerError("field_invalid", `${field}: a completions body has no messages; use "directives" in token form`, { param: field });
}
