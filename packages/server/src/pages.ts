import type { Lifecycle } from "./lifecycle.ts";
import type { OpenApiDocument } from "./openapi.ts";
import { curlExample } from "./welcome.ts";

const STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:3rem auto;padding:0 1rem}pre{background:#f4f4f4;padding:1rem;overflow:auto}td{padding:.1rem 1rem .1rem 0}";

/** What runs here, and one command to try it. */
export function startPage(address: string, lifecycle: Lifecycle): string {
  const service = lifecycle.loaded;
  const rows: [string, string][] =
    service === undefined
      ? [["state", `loading, ${Math.round(lifecycle.progress * 100)} %`]]
      : [
          ["model", `${service.id} (${service.info.architecture}, ${service.info.quantization}), context ${service.contextLength}`],
          ["level", `${service.level}, ${service.cacheDtype} cells, ${service.threads} threads`],
        ];
  const table = [["address", address] as [string, string], ...rows].map(([name, value]) => `<tr><td>${name}</td><td>${escape(value)}</td></tr>`).join("");
  return page("Palimpsest", `<h1>Palimpsest</h1><table>${table}</table><pre>${escape(curlExample(address))}</pre><p><a href="/docs">Endpoints</a> · <a href="/openapi.json">OpenAPI</a> · <a href="/metrics">Metrics</a></p>`);
}

export function docsPage(document: OpenApiDocument): string {
  const rows = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { summary }]) => `<tr><td><code>${method.toUpperCase()} ${escape(path)}</code></td><td>${escape(summary)}</td></tr>`),
  );
  return page("Palimpsest: endpoints", `<h1>Endpoints</h1><table>${rows.join("")}</table><p>Fields of every body: <a href="/openapi.json">OpenAPI</a></p>`);
}

const page = (title: string, body: string) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style><body>${body}</body></html>`;

/** The address comes from the request's own host header. */
const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
