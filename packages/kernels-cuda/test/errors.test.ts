import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { KERNEL_ERROR_CODES, KernelError } from "../src/index.ts";
import { loadNative } from "../src/loader.ts";
import { toKernelError } from "../src/native.ts";

test("the table of codes is the same in Rust, in TypeScript and in the README", () => {
  const native = Object.fromEntries(loadNative().errorCodes().map(({ code, kind }) => [code, kind]));
  expect(native).toEqual(KERNEL_ERROR_CODES);
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const rows = [...readme.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, code, kind]) => [code, kind]);
  expect(Object.fromEntries(rows)).toEqual(KERNEL_ERROR_CODES);
});

test("an error keeps code, kind, parameter and message over the border", () => {
  const error = toKernelError(new Error(String.raw`palimpsest:{"code":"step_invalid","param":"token[3]","message":"a \"quote\", a \\ and ü"}`));
  expect(error).toMatchObject({ code: "step_invalid", kind: "invalid", param: "token[3]", message: 'a "quote", a \\ and ü' });
  expect(toKernelError(new Error('palimpsest:{"code":"native_panic","param":null,"message":"m"}')).param).toBeUndefined();
});

test("what napi raises itself is an error of this package too", () => {
  expect(toKernelError(new Error("index out of bounds"))).toMatchObject({ code: "native_panic", kind: "internal" });
  expect(toKernelError(new TypeError("Illegal invocation"))).toMatchObject({ code: "argument_invalid" });
  expect(toKernelError("text")).toBeInstanceOf(KernelError);
});

test("the hand-written surface names what the binary exports", () => {
  const exported = Object.keys(loadNative()).toSorted();
  const source = readFileSync(new URL("../src/native.ts", import.meta.url), "utf8");
  const body = /export interface Native \{([^}]*(?:\{[^}]*\}[^}]*)*)\n\}/.exec(source)?.[1] ?? "";
  const declared = [...body.matchAll(/^ {2}(\w+)[(:]/gm)].map(([, name]) => name);
  // Classes that a call gives, not a constructor.
  const given = new Set(["NativeRuntime", "NativeMatrix", "NativeCellPages"]);
  expect(exported.filter((name) => !given.has(name))).toEqual(declared.toSorted());
});
