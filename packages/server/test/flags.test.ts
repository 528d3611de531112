import { describe, expect, test } from "vitest";
import { parseBytes, parseFlags } from "../src/cli/flags.ts";
import { SERVE_FLAGS } from "../src/cli/flagset.ts";
import { modelOptions } from "../src/cli/serve.ts";
import { editDistance, likely, nearest } from "../src/nearest.ts";

const parse = (...args: string[]) => parseFlags(SERVE_FLAGS, args);
const options = (...args: string[]) => modelOptions(parse(...args).flags);

describe("flags of the command line", () => {
  test("are read with a blank or an equals sign", () => {
    const { flags, positionals } = parse("--port", "0", "--model=a b.gguf", "--cache-mem=1.5GiB", "--alias", "x", "--alias=y", "file", "--", "--rest");
    expect(flags.number("port")).toBe(0);
    expect(flags.text("model")).toBe("a b.gguf");
    expect(flags.number("cache-mem")).toBe(1.5 * 1024 ** 3);
    expect(flags.texts("alias")).toEqual(["x", "y"]);
    expect(flags.number("threads")).toBeUndefined();
    expect(positionals).toEqual(["file", "--rest"]);
  });

  test("name the tiers behind the cache, and say so when they name a part of what is not there", () => {
    expect(options()).toMatchObject({ hostBytes: undefined, disk: undefined });
    expect(options("--cache-host", "1GiB", "--cache-disk=cells")).toMatchObject({ hostBytes: 1024 ** 3, disk: { path: "cells", bytesMax: 16 * 1024 ** 3, keyFile: undefined } });
    expect(options("--cache-disk=cells", "--cache-disk-size=1GB", "--cache-key", "k")).toMatchObject({ disk: { path: "cells", bytesMax: 1e9, keyFile: "k" } });
    expect(() => options("--cache-key", "k")).toThrow("--cache-key says something of the folder that --cache-disk names");
    expect(() => options("--cache-disk-size", "1GiB")).toThrow("--cache-disk-size");
  });

  test.each([
    [["--prot", "1"], "unknown flag --prot; the nearest is --port"],
    [["--cach-mem=1"], "the nearest is --cache-mem"],
    [["-p", "1"], "unknown flag -p; --help lists all"],
    [["--bogus", "1"], "unknown flag --bogus; --help lists all"],
    [["--cache-memory", "1"], "the nearest is --cache-mem"],
    [["--level", "info"], "the nearest is --log-level"],
    [["--port", "--log-level", "info"], "--port needs a value, and --log-level behind it is a flag: --port N"],
    [["--model", "--ctx=64"], "--model needs a value, and --ctx behind it is a flag"],
    [["--kernels", "--nonsense"], "--kernels needs a value, and --nonsense behind it is a flag"],
    [["--port"], "--port needs a value"],
    [["--port", "80.5"], "--port expected a whole number from 0 to 65535"],
    [["--port", "-1"], "--port expected a whole number"],
    [["--port", "70000"], "--port expected a whole number"],
    [["--port=1", "--port=2"], "--port is given twice"],
    [["--pages", "0"], "--pages expected a whole number from 1"],
    [["--cache-mem", "much"], "--cache-mem expected a size such as 512MiB"],
    [["--cache-mem", "0"], "--cache-mem expected a size"],
    [["--cache-dtype", "f61"], "expected one of f32, f16, q8_0, got \"f61\"; the nearest is f16"],
    [["--model="], "--model needs a value"],
    [["--kernels", "avx"], "--kernels expected one of"],
  ])("%j is refused by name", (args, message) => {
    expect(() => parse(...args)).toThrowError(expect.objectContaining({ kind: "invalid", code: "flag_invalid", message: expect.stringContaining(message) as string }) as Error);
  });

  test("cells may be f32, f16 or q8_0", () => {
    for (const dtype of ["f32", "f16", "q8_0"]) expect(parse("--cache-dtype", dtype).flags.text("cache-dtype")).toBe(dtype);
  });

  test.each([
    ["--kernels", "cuda"],
  ])("%s %s is known and said to be unsupported", (flag, value) => {
    expect(() => parse(flag, value)).toThrowError(expect.objectContaining({ kind: "unsupported", param: flag }) as Error);
  });

  test("a value that begins like a flag is written with an equals sign", () => {
    expect(parse("--model=--odd.gguf").flags.text("model")).toBe("--odd.gguf");
  });

  test("a poor guess is not made", () => {
    for (const args of [["--zzz", "1"], ["--kernels", "cpu"], ["--log-level", "loud"]]) expect(() => parse(...args)).toThrowError(expect.objectContaining({ message: expect.not.stringContaining("nearest") as string }) as Error);
  });

  test("sizes have binary and decimal units", () => {
    expect(["2GiB", "2g", "2GB", "512 MiB", "7", "1.5k"].map(parseBytes)).toEqual([2 ** 31, 2 ** 31, 2e9, 2 ** 29, 7, 1536]);
    expect(["", "GiB", "-1", "1e3", "1 2"].map(parseBytes)).toEqual([null, null, null, null, null]);
  });
});

describe("the nearest name", () => {
  test("counts insertions, deletions, substitutions and swaps as one", () => {
    expect(editDistance("port", "prot")).toBe(1);
    expect(editDistance("", "abc")).toBe(3);
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("same", "same")).toBe(0);
  });

  test("is likely when few letters are wrong, or one contains the other", () => {
    const names = ["pages", "page-size", "port", "log-level", "ctx"];
    expect(["prot", "page", "pagesize", "bogus", "level", "max-ctx", "x", "host"].map((word) => likely(word, names))).toEqual(["port", "pages", "page-size", null, "log-level", "ctx", null, null]);
  });

  test("is none when all are farther than the limit", () => {
    expect(nearest("frobnicate", ["port", "host"], 2)).toBeNull();
    expect(nearest("hots", ["port", "host"], 2)).toBe("host");
  });
});
