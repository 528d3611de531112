import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { writeError } from "./errors.ts";

/** Where this program keeps what it fetched: `PALIMPSEST_HOME`, or `~/.cache/palimpsest`. */
export function cacheFolder(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  const chosen = environment["PALIMPSEST_HOME"];
  return chosen === undefined || chosen === "" ? path.join(homedir(), ".cache", "palimpsest") : path.resolve(chosen);
}

export function modelsFolder(environment?: Readonly<Record<string, string | undefined>>): string {
  return path.join(cacheFolder(environment), "models");
}

/** @throws ModelError `cache_unwritable`, `disk_full` */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw writeError(error, folder);
  }
}
