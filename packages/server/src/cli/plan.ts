import { readFileSync } from "node:fs";
import { ServerError } from "../errors.ts";
import { Client } from "./client.ts";
import { planText, type PlanAnswer } from "./conversation.ts";
import type { FlagValues } from "./flags.ts";
import { line, type Streams } from "./io.ts";
import { withServer } from "./server.ts";

/** `palimpsest plan FILE` (`-`: standard input): what each directive of a request file would do and cost. Computes nothing. */
export async function plan(file: string, flags: FlagValues, streams: Streams): Promise<number> {
  const body = readRequest(file);
  return withServer(flags, streams, async (address) => {
    const answer = await new Client(address).post<PlanAnswer>("/v1/directives/plan", body);
    line(streams.output, planText(answer));
    return 0;
  });
}

function readRequest(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file === "-" ? 0 : file, "utf8"));
  } catch (cause) {
    throw new ServerError("json_invalid", `${file}: ${cause instanceof Error ? cause.message : "cannot be read"}`, { cause });
  }
}
