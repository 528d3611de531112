import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { ServerError } from "./errors.ts";
import { parse } from "./openai/body.ts";

/** Who asks. The namespace comes from the credential alone; nothing that a client says in a request reaches it. */
export interface Caller {
  namespace: string;
  /** May see the state of the whole server. */
  operator: boolean;
}

const KEY = z.string().min(1, { error: () => "expected a non-empty key" });
const tenantsSchema = z.strictObject({
  tenants: z.record(z.string().regex(/^[\w.-]{1,64}$/, { error: () => "expected a name of letters, digits, '.', '_', '-'" }), z.array(KEY)),
  operators: z.array(KEY).optional(),
});

/** Without a tenants file: any key, or none, and one namespace for all. */
export const OPEN_ACCESS = new Map<string, Caller>();
const ANYONE: Caller = { namespace: "public", operator: true };

/** Keys by their hash: looking one up takes the same time for every wrong key, and no key lies in memory or in a log. */
export type TenantTable = ReadonlyMap<string, Caller>;

/**
 * Reads `{"tenants": {"NAME": ["key", …]}, "operators": ["key", …]}`. A key belongs to one tenant. An operator's key computes in a
 * namespace of its own and may read `/metrics` and `/v1/cache`.
 */
export function readTenants(file: string): TenantTable {
  const content = parse(tenantsSchema, readJson(file));
  const table = new Map<string, Caller>();
  const add = (key: string, caller: Caller) => {
    const hash = hashOf(key);
    if (table.has(hash)) throw new ServerError("field_invalid", `${file}: a key is given twice; each key belongs to one tenant`, { param: "tenants" });
    table.set(hash, caller);
  };
  for (const [name, keys] of Object.entries(content.tenants)) {
    for (const key of keys) add(key, { namespace: `tenant/${name}`, operator: false });
  }
  for (const key of content.operators ?? []) add(key, { namespace: "operator", operator: true });
  if (table.size === 0) throw new ServerError("field_invalid", `${file}: there is no key in it, so nobody could use the server`, { param: "tenants" });
  return table;
}

/** The caller of a request, by `authorization: Bearer KEY` or `x-api-key: KEY`. */
export function identify(table: TenantTable, headers: IncomingHttpHeaders): Caller {
  if (table.size === 0) return ANYONE;
  const bearer = /^Bearer +(\S+)\s*$/i.exec(headers.authorization ?? "")?.[1];
  const header = headers["x-api-key"];
  const key = bearer ?? (typeof header === "string" ? header : undefined);
  const caller = key === undefined ? undefined : table.get(hashOf(key));
  if (caller !== undefined) return caller;
  throw new ServerError("invalid_api_key", key === undefined ? "this server wants an API key: authorization: Bearer KEY" : "the API key is not known here");
}

/** For what shows the whole server: with tenants, one could watch another there. */
export function requireOperator(caller: Caller): void {
  if (!caller.operator) throw new ServerError("operator_key_required", "with tenants configured, this needs one of the operators' keys");
}

const hashOf = (key: string) => createHash("sha256").update(key).digest("hex");

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new ServerError("field_invalid", `--tenants ${file}: ${cause instanceof Error ? cause.message : "cannot be read"}`, { param: "--tenants", cause });
  }
}
