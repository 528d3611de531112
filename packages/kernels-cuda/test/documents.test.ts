import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import * as face from "../src/index.ts";
import { tinyModels } from "./support.ts";

const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const LINES_MAX = 25;

for (const name of ["rotation", "matmul", "attention"]) {
  test(`the README's example of ${name} is the program beside this test, fits in ${LINES_MAX} lines, and prints what the README says`, async () => {
    const program = readFileSync(new URL(`examples/${name}.ts`, import.meta.url), "utf8");
    expect(readme).toContain(`\`\`\`ts\n${program}\`\`\``);
    expect(program.trimEnd().split("\n").length).toBeLessThanOrEqual(LINES_MAX);
    const printed: string[] = [];
    const log = vi.spyOn(console, "log").mockImplementation((line: string) => void printed.push(line));
    await import(`./examples/${name}.ts`).finally(() => log.mockRestore());
    expect(printed.length).toBe(1);
    expect(readme).toContain(`\`\`\`text\n${printed.join("\n")}\n\`\`\``);
  });
}

test("the table of exports names every function and class of the library face", () => {
  const section = readme.slice(readme.indexOf("## Parts of it, without a model"), readme.indexOf("## Options"));
  const listed = new Set([...section.matchAll(/`(\w+)\(/g)].map(([, name]) => name));
  const ofTheRuntime = new Set(["KERNEL_ERROR_CODES", "KernelError", "naiveReplay", "openRuntime", "readModel", "writeTinyModel"]);
  // Classes are named by what gives them.
  const classes = new Set(["Compute", "PackedMatrix", "CellPages"]);
  const functions = Object.keys(face).filter((name) => !ofTheRuntime.has(name) && !classes.has(name));
  expect(functions.filter((name) => !listed.has(name))).toEqual([]);
});

const path = tinyModels({ llama: {} });

test("the README's smallest use, its view and its cells elsewhere are one program that runs", async () => {
  const before = readme.slice(0, readme.indexOf("## Parts of it, without a model"));
  const [use = "", view = "", elsewhere = ""] = [...before.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
  const dispose = "await runtime.dispose();\n";
  expect(use).toContain(dispose);
  const program = use.replace(dispose, `${view}${elsewhere}${dispose}export { ids, view, bytes };\n`).replace('"model.gguf"', JSON.stringify(path("llama")));
  // Inside the checkout, so that the package is found.
  const folder = fileURLToPath(new URL("../../../.cache/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  const file = `${folder}readme-kernels-${process.pid}.ts`;
  writeFileSync(file, program);
  const { ids, view: runs, bytes } = (await import(file).finally(() => rmSync(file, { force: true }))) as Record<string, ArrayLike<number>>;
  expect(ids?.length).toBe(1);
  expect(Object.keys(runs ?? {})).toContain("runShift");
  expect(Array.from(bytes ?? []).some((byte) => byte !== 0)).toBe(true);
});
