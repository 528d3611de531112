import { RadixError } from "./errors.ts";

/** All that two cells of one path must have in common before one may stand for the other. Derived on the server, never by a client. */
export interface Namespace {
  /** Identity of the weights, for instance the hash of the model file; an adapter changes it. */
  model: string;
  /** Shape of a cell: layers, heads, head size, groups. */
  layout: string;
  /** Number type of cached keys and values. */
  dtype: string;
  /** Identity of the rotary table: base, scaling, factors. */
  rotary: string;
  /** Whose cells they are: a tenant neither hits nor times the cells of another. */
  tenant: string;
}

const VERSION = 1;

/** One string for one namespace: two are equal exactly if all five parts are. */
export function namespaceKey(namespace: Namespace): string {
  const parts = [namespace.model, namespace.layout, namespace.dtype, namespace.rotary, namespace.tenant];
  if (parts.some((part) => typeof part !== "string")) {
    throw new RadixError("namespace_invalid", "model, layout, dtype, rotary and tenant of a namespace must be strings", "namespace");
  }
  return JSON.stringify([VERSION, ...parts]);
}

/** The inverse of `namespaceKey`. */
export function parseNamespaceKey(key: string): Namespace {
  let parts: unknown;
  try {
    parts = JSON.parse(key);
  } catch {
    parts = null;
  }
  if (!Array.isArray(parts) || parts.length !== 6 || parts[0] !== VERSION || parts.slice(1).some((part) => typeof part !== "string")) {
    throw new RadixError("namespace_invalid", `not a namespace key of version ${VERSION}: ${key}`, "namespace");
  }
  const [, model, layout, dtype, rotary, tenant] = parts as [number, string, string, string, string, string];
  return { model, layout, dtype, rotary, tenant };
}
