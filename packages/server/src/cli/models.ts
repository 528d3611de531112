import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { ServerError } from "../errors.ts";
import { line, type Streams } from "./io.ts";

const MODELS = () => join(process.env["PALIMPSEST_HOME"] ?? join(homedir(), ".cache", "palimpsest"), "models");

/** A model file that is here, and its name in answers. */
export async function findModel(name: string | undefined, _streams: Streams): Promise<{ path: string; id: string }> {
  const wanted = name ?? "SmolLM2-135M-Instruct.Q4_1.gguf";
  const path = [wanted, join(MODELS(), wanted)].find((candidate) => existsSync(candidate));
  if (path === undefined) throw new ServerError("model_load_failed", `there is no model file ${wanted}`, { param: "--model" });
  return { path, id: basename(path).replace(/\.gguf$/, "") };
}

export async function listModels(streams: Streams): Promise<number> {
  for (const name of existsSync(MODELS()) ? readdirSync(MODELS()) : []) line(streams.output, name);
  return 0;
}

export async function pull(name: string, _streams: Streams): Promise<number> {
  throw new ServerError("unsupported", `pull ${name} is not supported yet`);
}
