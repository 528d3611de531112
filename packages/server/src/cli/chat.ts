import { createInterface } from "node:readline";
import { ServerError } from "../errors.ts";
import { Client } from "./client.ts";
import { Conversation, planText, stateText, type PlanAnswer } from "./conversation.ts";
import type { FlagValues } from "./flags.ts";
import { line, type Streams } from "./io.ts";
import { withServer } from "./server.ts";
import { loadVerbs } from "./verbs.ts";

const HELP = `/drop 3        hide message 3 (or 3,4..6) from what follows
/reposition    close the gaps in the positions
/splice text message 0 exact "old" with "new"
               put other words in place; what follows moves up or down. With forget at the end: as if the old had never stood
/scratch 5 part thinking, /decay 3 turns 2, /pin 0 until 8 turns, and the verbs of --verbs
/plan drop 3   what it would do and cost, without doing it; /plan alone: what stands
/view          the conversation with its message numbers, tokens and what is hidden
/undo          take the last directive back
/quit`;

/** `palimpsest chat`: reads lines until the input ends or /quit. */
export async function chat(flags: FlagValues, streams: Streams): Promise<number> {
  const temperature = Number(flags.text("temperature") ?? "0.7");
  if (!(temperature >= 0 && temperature <= 2)) throw new ServerError("flag_invalid", "--temperature expected a number from 0 to 2", { param: "--temperature" });
  const options = { temperature, max_tokens: flags.number("max-tokens") ?? 512 };
  const registry = await loadVerbs(flags.texts("verbs"), process.cwd());
  return withServer(flags, streams, async (address) => {
    const session = new Session(new Client(address), new Conversation(flags.text("system"), registry), options, streams);
    await session.run();
    return 0;
  });
}

class Session {
  private readonly client: Client;
  private readonly conversation: Conversation;
  private readonly options: object;
  private readonly streams: Streams;
  /** The answer that is coming in. */
  private answering: AbortController | undefined;

  constructor(client: Client, conversation: Conversation, options: object, streams: Streams) {
    this.client = client;
    this.conversation = conversation;
    this.options = options;
    this.streams = streams;
  }

  async run(): Promise<void> {
    line(this.streams.output, "Write a message, or /help.");
    const lines = createInterface({ input: this.streams.input, output: this.streams.output, prompt: "> " });
    // Ctrl-C ends the answer that is coming in, or the chat.
    lines.on("SIGINT", () => (this.answering === undefined ? lines.close() : this.answering.abort()));
    lines.prompt();
    for await (const text of lines) {
      if (text.trim() === "/quit") break;
      try {
        if (text.startsWith("/")) await this.command(text.slice(1).trim());
        else if (text.trim() !== "") await this.turn(text);
      } catch (error) {
        line(this.streams.output, error instanceof Error ? error.message : String(error));
      }
      lines.prompt();
    }
    lines.close();
  }

  private async command(text: string): Promise<void> {
    const [name = ""] = text.split(/\s+/, 1);
    switch (name) {
      case "plan":
        return this.plan(text.slice("plan".length).trim());
      case "view":
        return this.view();
      case "undo":
        this.conversation.directives.pop();
        return this.plan("");
      case "help":
        return line(this.streams.output, HELP);
      default:
        if (this.conversation.registry.get(name) !== undefined) return this.edit(text);
        return line(this.streams.output, `there is no command /${name}\n${HELP}`);
    }
  }

  /** A directive that the server refuses does not stay. */
  private async edit(text: string): Promise<void> {
    const before = this.conversation.directives;
    this.conversation.directives = [...before, this.conversation.directive(text)];
    try {
      line(this.streams.output, planText(await this.planned()));
    } catch (error) {
      this.conversation.directives = before;
      throw error;
    }
  }

  private async plan(text: string): Promise<void> {
    const before = this.conversation.directives;
    try {
      if (text !== "") this.conversation.directives = [...before, this.conversation.directive(text)];
      line(this.streams.output, planText(await this.planned()));
    } finally {
      this.conversation.directives = before;
    }
  }

  private async view(): Promise<void> {
    if (this.conversation.messages.length === 0) return line(this.streams.output, "no message yet");
    const { owners } = await this.client.post<{ owners: number[] }>("/tokenize", { messages: this.conversation.messages });
    line(this.streams.output, stateText(this.conversation.states(owners, await this.planned())));
  }

  private planned(): Promise<PlanAnswer> {
    return this.client.post<PlanAnswer>("/v1/directives/plan", this.conversation.body());
  }

  /** Sends a message and shows the answer as it comes. A turn that fails leaves the conversation as it was. */
  private async turn(text: string): Promise<void> {
    this.conversation.messages.push({ role: "user", content: text });
    let answer = "";
    const { signal } = (this.answering = new AbortController());
    try {
      for await (const chunk of this.client.stream("/v1/chat/completions", { ...this.conversation.body(), ...this.options }, signal)) {
        const delta = (chunk["choices"] as { delta?: { content?: string } }[])[0]?.delta?.content ?? "";
        answer += delta;
        this.streams.output.write(delta);
        if (chunk["cache"] !== undefined) line(this.streams.output, `\n${reportText(chunk["cache"] as Record<string, number>)}`);
      }
      this.conversation.messages.push({ role: "assistant", content: answer });
    } catch (error) {
      this.conversation.messages.pop();
      throw signal.aborted ? new Error("\ninterrupted; this turn is forgotten") : error;
    } finally {
      this.answering = undefined;
    }
  }
}

const reportText = (report: Record<string, number>) =>
  `[read ${report["cached_tokens"]}, moved ${report["repositioned_tokens"]}, computed ${report["computed_tokens"]}, skipped ${report["skipped_tokens"]}]`;
