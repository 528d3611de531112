import { ServerError } from "../errors.ts";
import { likely } from "../nearest.ts";

interface FlagBase {
  /** Without the dashes. */
  name: string;
  help: string;
  /** Said in the help when the flag is absent. */
  fallback?: string;
}

export type Flag =
  | (FlagBase & { kind: "text"; value: string; repeated?: boolean })
  | (FlagBase & { kind: "whole"; value: string; min: number; max: number })
  | (FlagBase & { kind: "bytes"; value: string })
  | (FlagBase & { kind: "choice"; values: readonly string[]; unbuilt?: Readonly<Record<string, string>> })
  | (FlagBase & { kind: "switch" });

/** Parsed flags, by name. Text flags that may be repeated hold an array. */
export interface FlagValues {
  text(name: string): string | undefined;
  texts(name: string): readonly string[];
  number(name: string): number | undefined;
  on(name: string): boolean;
}

export interface CommandLine {
  flags: FlagValues;
  positionals: string[];
}

/** Parses `--name value`, `--name=value` and positionals; `--` ends the flags. Throws a `ServerError` that names the flag. */
export function parseFlags(known: readonly Flag[], args: readonly string[]): CommandLine {
  const found = new Map<string, (string | number | boolean)[]>();
  const positionals: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (arg === "--") {
      positionals.push(...args.slice(i + 1));
      break;
    }
    if (!arg.startsWith("-") || arg === "-") {
      positionals.push(arg);
      continue;
    }
    const [written, inline] = splitAtEquals(arg);
    const flag = findFlag(known, written);
    if (flag.kind === "switch" && inline !== undefined) throw flagError(flag, `takes no value, got "${inline}"`);
    const value = flag.kind === "switch" ? true : readValue(flag, inline ?? valueBehind(flag, args[++i]));
    const earlier = found.get(flag.name) ?? [];
    if (earlier.length > 0 && !(flag.kind === "text" && flag.repeated === true)) throw flagError(flag, "is given twice; keep one");
    found.set(flag.name, [...earlier, value]);
  }
  return { flags: valuesOf(found), positionals };
}

/** One aligned line for each flag. */
export function flagHelp(known: readonly Flag[]): string {
  const rows = known.map((flag) => [usage(flag), flag.help + (flag.fallback === undefined ? "" : ` (default: ${flag.fallback})`)] as const);
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

/** `512MiB`, `2GiB`, `1.5gb`, `1048576` → bytes; null when it is none of these. KiB, MiB, GiB and a letter alone are powers of 1024, KB, MB, GB of 1000. */
export function parseBytes(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(b|kib|mib|gib|tib|kb|mb|gb|tb|k|m|g|t)?$/i.exec(text.trim());
  if (match === null) return null;
  const unit = (match[2] ?? "b").toLowerCase();
  const power = "bkmgt".indexOf(unit[0] ?? "b");
  const base = unit.endsWith("b") && !unit.endsWith("ib") && unit !== "b" ? 1000 : 1024;
  const bytes = Math.floor(Number(match[1]) * base ** power);
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : null;
}

function usage(flag: Flag): string {
  if (flag.kind === "switch") return `--${flag.name}`;
  return `--${flag.name} ${flag.kind === "choice" ? flag.values.join("|") : flag.value}`;
}

function splitAtEquals(arg: string): [string, string | undefined] {
  const at = arg.indexOf("=");
  return at === -1 ? [arg, undefined] : [arg.slice(0, at), arg.slice(at + 1)];
}

/** The argument behind a flag. One that is a flag itself is no value: it would be swallowed. */
function valueBehind(flag: Flag, arg: string | undefined): string | undefined {
  if (arg === undefined || !/^--[A-Za-z]/.test(arg)) return arg;
  throw flagError(flag, `needs a value, and ${splitAtEquals(arg)[0]} behind it is a flag: ${usage(flag)} (a value that begins so is written --${flag.name}=${arg})`);
}

function findFlag(known: readonly Flag[], written: string): Flag {
  const flag = known.find((candidate) => written === `--${candidate.name}`);
  if (flag !== undefined) return flag;
  const near = likely(written.replace(/^-+/, ""), known.map((candidate) => candidate.name));
  const hint = near === null ? "; --help lists all" : `; the nearest is --${near}`;
  throw new ServerError("flag_invalid", `unknown flag ${written}${hint}`, { param: written });
}

function readValue(flag: Exclude<Flag, { kind: "switch" }>, text: string | undefined): string | number {
  if (text === undefined) throw flagError(flag, `needs a value: ${usage(flag)}`);
  switch (flag.kind) {
    case "text":
      if (text === "") throw flagError(flag, `needs a value: ${usage(flag)}`);
      return text;
    case "whole": {
      const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
      if (!(value >= flag.min && value <= flag.max)) throw flagError(flag, `expected a whole number from ${flag.min} to ${flag.max}, got "${text}"`);
      return value;
    }
    case "bytes": {
      const bytes = parseBytes(text);
      if (bytes === null) throw flagError(flag, `expected a size such as 512MiB or 2GiB (GB is decimal), got "${text}"`);
      return bytes;
    }
    case "choice": {
      const reason = flag.unbuilt?.[text];
      if (reason !== undefined) throw new ServerError("unsupported", `--${flag.name} ${text} is not supported: ${reason}`, { param: `--${flag.name}` });
      if (flag.values.includes(text)) return text;
      const near = likely(text, flag.values);
      throw flagError(flag, `expected one of ${flag.values.join(", ")}, got "${text}"${near === null ? "" : `; the nearest is ${near}`}`);
    }
  }
}

const flagError = (flag: Flag, message: string) => new ServerError("flag_invalid", `--${flag.name} ${message}`, { param: `--${flag.name}` });

function valuesOf(found: ReadonlyMap<string, readonly (string | number | boolean)[]>): FlagValues {
  const last = (name: string) => found.get(name)?.at(-1);
  return {
    text: (name) => last(name) as string | undefined,
    texts: (name) => (found.get(name) ?? []) as readonly string[],
    number: (name) => last(name) as number | undefined,
    on: (name) => last(name) === true,
  };
}
