import { expect, test } from "vitest";
import { KernelError } from "../src/index.ts";
import { type LoaderHost, loadNative, platformName } from "../src/loader.ts";

const LINUX: LoaderHost = {
  platform: "linux",
  arch: "x64",
  libc: "glibc",
  environment: {},
  folder: "/package/",
  open: (candidate) => {
    throw new Error(`cannot open ${candidate}\nsecond line`);
  },
};

test("a platform has the name that napi gives it", () => {
  expect(platformName(LINUX)).toBe("linux-x64-gnu");
  expect(platformName({ ...LINUX, libc: "musl", arch: "arm64" })).toBe("linux-arm64-musl");
  expect(platformName({ platform: "darwin", arch: "arm64", libc: "" })).toBe("darwin-arm64");
  expect(platformName({ platform: "win32", arch: "x64", libc: "" })).toBe("win32-x64-msvc");
});

test("a local build goes before the package of the platform", () => {
  const tried: string[] = [];
  const opens = (which: number) => (candidate: string) => {
    tried.push(candidate);
    if (tried.length === which) return { candidate };
    throw new Error("no");
  };
  expect(loadNative({ ...LINUX, open: opens(1) })).toEqual({ candidate: "/package/palimpsest-kernels.linux-x64-gnu.node" });
  tried.length = 0;
  expect(loadNative({ ...LINUX, open: opens(2) })).toEqual({ candidate: "@palimpsest/kernels-cuda-linux-x64-gnu" });
});

test("a library that is named is the only one tried", () => {
  const tried: string[] = [];
  const host = {
    ...LINUX,
    environment: { NAPI_RS_NATIVE_LIBRARY_PATH: "/else/where.node" },
    open: (candidate: string) => {
      tried.push(candidate);
      throw new Error("wrong ELF class");
    },
  };
  expect(() => loadNative(host)).toThrow("/else/where.node: wrong ELF class");
  expect(tried).toEqual(["/else/where.node"]);
});

test("when nothing loads, platform, libc, every place and what it said are told", () => {
  let error: unknown;
  try {
    loadNative({ ...LINUX, libc: "musl" });
  } catch (cause) {
    error = cause;
  }
  expect(error).toBeInstanceOf(KernelError);
  const { code, message } = error as KernelError;
  expect(code).toBe("backend_unsupported");
  for (const part of [
    "linux x64, musl",
    "  /package/palimpsest-kernels.linux-x64-musl.node: cannot open /package/palimpsest-kernels.linux-x64-musl.node",
    "  @palimpsest/kernels-cuda-linux-x64-musl: cannot open @palimpsest/kernels-cuda-linux-x64-musl",
    "npm run build",
  ]) {
    expect(message).toContain(part);
  }
  expect(message).not.toContain("second line");
});
