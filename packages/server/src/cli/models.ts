import { basename } from "node:path";
import { DEFAULT_MODEL, formatBytes, isCached, listModels, progressBar, pullModel, resolveModel } from "../models/index.ts";
import { line, type Streams } from "./io.ts";

/** Part of the way to a ready server that a download takes. */
const FETCH_SHARE = 0.8;

export interface FoundModel {
  path: string;
  /** Name in answers: the catalog's, or the file's. */
  id: string;
  /** How far the whole start is once the file is there. */
  progress: number;
}

/** The file that `--model` names, fetched where it is not here yet. */
export async function findModel(name: string | undefined, streams: Streams, onProgress: (fraction: number) => void): Promise<FoundModel> {
  const spec = name ?? DEFAULT_MODEL;
  const model = await resolveModel(spec);
  const id = model.kind === "catalog" ? model.entry.name : basename(model.file).replace(/\.gguf$/i, "");
  if (model.kind === "file" || (await isCached(model))) return { path: await fetchModel(spec, id, streams), id, progress: 0 };
  const path = await fetchModel(spec, id, streams, (fraction) => onProgress(FETCH_SHARE * fraction));
  return { path, id, progress: FETCH_SHARE };
}

/** `palimpsest models`: the catalog, and what else is here. */
export async function printModels(streams: Streams): Promise<number> {
  for (const { name, title, bytes, cached, testOnly } of await listModels()) {
    const notes = [cached ? "here" : "", name === DEFAULT_MODEL ? "the default" : "", testOnly ? "for tests" : ""].filter((note) => note !== "");
    line(streams.output, `${name.padEnd(24)} ${formatBytes(bytes).padStart(9)}  ${title}${notes.length === 0 ? "" : ` (${notes.join(", ")})`}`);
  }
  return 0;
}

/** `palimpsest pull`: prints where the file is. */
export async function pull(spec: string, streams: Streams): Promise<number> {
  line(streams.output, await fetchModel(spec, spec, streams));
  return 0;
}

async function fetchModel(spec: string, title: string, streams: Streams, onFraction: (fraction: number) => void = () => {}): Promise<string> {
  const bar = progressBar(title, streams.errors);
  try {
    return await pullModel(spec, {
      onProgress: (progress) => {
        bar.onProgress(progress);
        if (progress.phase === "downloading" && progress.total) onFraction(Math.min(progress.bytes / progress.total, 1));
      },
    });
  } finally {
    bar.done();
  }
}
