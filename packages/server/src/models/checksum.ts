import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { ModelError } from "./errors.ts";
import type { OnProgress } from "./progress.ts";

/** SHA-256 of a file, in lower-case hexadecimal. */
export async function sha256OfFile(file: string, total: number | null = null, onProgress?: OnProgress): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
    onProgress?.({ phase: "verifying", bytes, total });
  }
  return hash.digest("hex");
}

/** @throws ModelError `model_file_wrong` for a file that is no GGUF file: an error page, say, that came in the place of a model. */
export async function checkIsGguf(file: string, source: string): Promise<void> {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    if (bytesRead < 4 || buffer.toString("latin1") !== "GGUF") {
      throw new ModelError("model_file_wrong", `${source} is no GGUF file (it does not begin with "GGUF"); give the address of the file itself`);
    }
  } finally {
    await handle.close();
  }
}
