import { closeSync, openSync, readSync } from "node:fs";
import type { TokenizerData } from "@palimpsest/kernels-cuda";

/** Reads the tokenizer's part of a GGUF file's metadata. For tests on trusted files only: nothing is checked. */
export function readTokenizerData(file: string): TokenizerData {
  const handle = openSync(file, "r");
  const bytes = Buffer.alloc(24 << 20);
  readSync(handle, bytes, 0, bytes.length, 0);
  closeSync(handle);
  const metadata = readMetadata(bytes);
  const get = <T>(key: string, otherwise: T): T => (metadata.get(`tokenizer.${key}`) as T | undefined) ?? otherwise;
  return {
    model: get("ggml.model", ""),
    pre: get("ggml.pre", ""),
    tokens: get("ggml.tokens", []),
    tokenTypes: Int32Array.from(get<number[]>("ggml.token_type", [])),
    merges: get("ggml.merges", []),
    bos: get<number | null>("ggml.bos_token_id", null),
    eos: get<number | null>("ggml.eos_token_id", null),
    eot: get<number | null>("ggml.eot_token_id", null),
    addBos: get("ggml.add_bos_token", false),
    chatTemplate: get<string | null>("chat_template", null),
  };
}

function readMetadata(bytes: Buffer): Map<string, unknown> {
  let at = 16;
  const advance = (size: number) => {
    at += size;
    return at - size;
  };
  const uint32 = () => bytes.readUInt32LE(advance(4));
  const uint64 = () => Number(bytes.readBigUInt64LE(advance(8)));
  const string = () => {
    const length = uint64();
    return bytes.toString("utf8", advance(length), at);
  };
  const value = (type: number): unknown => {
    switch (type) {
      case 0: case 1: return bytes.readUInt8(advance(1));
      case 2: case 3: return bytes.readUInt16LE(advance(2));
      case 4: return uint32();
      case 5: return bytes.readInt32LE(advance(4));
      case 6: return bytes.readFloatLE(advance(4));
      case 7: return bytes.readUInt8(advance(1)) !== 0;
      case 8: return string();
      case 9: {
        const element = uint32();
        return Array.from({ length: uint64() }, () => value(element));
      }
      case 10: case 11: return uint64();
      default: return bytes.readDoubleLE(advance(8));
    }
  };
  const metadata = new Map<string, unknown>();
  for (let count = uint64(); count > 0; count -= 1) {
    const key = string();
    metadata.set(key, value(uint32()));
  }
  return metadata;
}
