import type { FlagValues } from "./flags.ts";
import type { Streams } from "./io.ts";
import { modelOptions, startServer } from "./serve.ts";

/** Runs a command against `--url`, or against a server of its own on a free port that ends with it. */
export async function withServer(flags: FlagValues, streams: Streams, command: (address: string) => Promise<number>): Promise<number> {
  const url = flags.text("url");
  if (url !== undefined) return command(url);
  const server = await startServer({ host: "127.0.0.1", port: 0, model: modelOptions(flags) }, streams);
  if (server === null) return 0;
  try {
    return await command(server.address);
  } finally {
    await server.stop(0);
  }
}
