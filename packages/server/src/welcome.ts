import { standardRegistry } from "@palimpsest/directives";
import type { Service } from "./service.ts";

/** One command that shows that it works. */
export function curlExample(address: string): string {
  return `curl ${address}/v1/chat/completions -H 'content-type: application/json' -d '{"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 32}'`;
}

/** What `palimpsest serve` prints when it is ready. */
export function readyText(service: Service, address: string): string {
  const { pages, pageSize, pageBytes } = service.pool;
  return [
    `model    ${service.id} (${service.info.architecture}, ${service.info.quantization}), context ${service.contextLength}`,
    `level    ${service.level}, ${service.cacheDtype} cells, ${service.threads} threads`,
    `cache    ${pages * pageSize} cells in ${pages} pages, ${formatBytes(pages * pageBytes)}`,
    ...verbsText(service),
    `address  ${address}`,
    `try      ${curlExample(address)}`,
    ...(service.chat?.capabilities.warnings ?? []).map((warning) => `note     ${warning}`),
  ].join("\n");
}

/** Verbs beside the standard ones. */
function verbsText({ registry }: Service): string[] {
  const others = registry.list().filter(({ name }) => standardRegistry.get(name) === undefined);
  return others.length === 0 ? [] : [`verbs    ${others.map(({ name }) => name).join(", ")}, and the standard ones`];
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
