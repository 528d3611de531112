import { publicError, ServerError } from "../errors.ts";
import { likely } from "../nearest.ts";
import { VERSION } from "../version.ts";
import { chat } from "./chat.ts";
import { CHAT_FLAGS, HELP_FLAG, PLAN_FLAGS, SERVE_FLAGS } from "./flagset.ts";
import { flagHelp, parseFlags, type Flag, type FlagValues } from "./flags.ts";
import { line, type Streams } from "./io.ts";
import { printModels, pull } from "./models.ts";
import { plan } from "./plan.ts";
import { serve } from "./serve.ts";

interface Command {
  name: string;
  /** Names of its positionals, all required. */
  takes: readonly string[];
  help: string;
  flags: readonly Flag[];
  run(positionals: readonly string[], flags: FlagValues, streams: Streams): Promise<number>;
}

const COMMANDS: readonly Command[] = [
  { name: "serve", takes: [], help: "the server", flags: SERVE_FLAGS, run: (_, flags, streams) => serve(flags, streams) },
  { name: "chat", takes: [], help: "chat in the terminal, with /drop, /reposition, /plan, /view", flags: CHAT_FLAGS, run: (_, flags, streams) => chat(flags, streams) },
  { name: "models", takes: [], help: "models that can be fetched by name, and those that are here", flags: [], run: (_, __, streams) => printModels(streams) },
  { name: "pull", takes: ["NAME|URL"], help: "fetch a model: progress, resume, checksum", flags: [], run: ([name = ""], _, streams) => pull(name, streams) },
  { name: "plan", takes: ["FILE"], help: "dry run of a request file; - is standard input", flags: PLAN_FLAGS, run: ([file = ""], flags, streams) => plan(file, flags, streams) },
  {
    name: "replay",
    takes: ["TRACE"],
    help: "recorded agent run through a policy (not built yet)",
    flags: [{ kind: "text", name: "policy", value: "P", help: "the policy" }],
    run: () => Promise.reject(new ServerError("unsupported", "replay is not supported: policies are not built yet", { param: "replay" })),
  },
];

/** Exit codes: 0 done, 1 failed, 2 not understood. */
export async function main(args: readonly string[], streams: Streams): Promise<number> {
  try {
    return await dispatch(args, streams);
  } catch (thrown) {
    const error = publicError(thrown);
    // At a terminal the cause is for the one who can act on it.
    const message = error.code === "internal_error" && thrown instanceof Error ? (thrown.stack ?? thrown.message) : error.message;
    line(streams.errors, `palimpsest: ${message}`);
    return error.kind === "invalid" || error.code === "unsupported" || error.code === "backend_unsupported" ? 2 : 1;
  }
}

async function dispatch(args: readonly string[], streams: Streams): Promise<number> {
  const [name = "help", ...rest] = args;
  if (name === "help" || name === "--help" || name === "-h") return show(streams, overview());
  if (name === "version" || name === "--version" || name === "-v") return show(streams, VERSION);
  const command = COMMANDS.find((candidate) => candidate.name === name);
  if (command === undefined) {
    const near = likely(name, COMMANDS.map((candidate) => candidate.name));
    throw new ServerError("flag_invalid", `unknown command "${name}"${near === null ? "" : `; the nearest is "${near}"`}. palimpsest help lists all`, { param: name });
  }
  const { flags, positionals } = parseFlags([...command.flags, HELP_FLAG], rest.map((arg) => (arg === "-h" ? "--help" : arg)));
  if (flags.on("help")) return show(streams, commandHelp(command));
  if (positionals.length !== command.takes.length) {
    const wanted = command.takes.length === 0 ? "takes no arguments" : `takes ${command.takes.join(" ")}`;
    throw new ServerError("flag_invalid", `palimpsest ${command.name} ${wanted}, got ${positionals.length === 0 ? "none" : positionals.map((item) => `"${item}"`).join(" ")}`);
  }
  return command.run(positionals, flags, streams);
}

function show(streams: Streams, text: string): number {
  line(streams.output, text);
  return 0;
}

function overview(): string {
  const rows = COMMANDS.map(({ name, takes, help }) => `  ${[name, ...takes].join(" ").padEnd(16)}  ${help}`);
  return `palimpsest ${VERSION}\n\n${rows.join("\n")}\n\npalimpsest COMMAND --help lists its flags.`;
}

function commandHelp({ name, takes, help, flags }: Command): string {
  return `palimpsest ${[name, ...takes].join(" ")}${flags.length === 0 ? "" : " [FLAGS]"}\n${help}\n\n${flagHelp([...flags, HELP_FLAG])}`;
}
