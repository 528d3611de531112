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
    `address  ${address}`,
    `try      ${curlExample(address)}`,
    ...(service.chat?.capabilities.warnings ?? []).map((warning) => `note     ${warning}`),
  ].join("\n");
}

export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}
