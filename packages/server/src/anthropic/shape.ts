import { randomUUID } from "node:crypto";
import { appliedEdits } from "@palimpsest/directives";
import { anthropicErrorBody } from "../errors.ts";
import type { Ending, Piece } from "../openai/answer.ts";
import type { Answerable, AnswerShape } from "../openai/respond.ts";
import { closing } from "../openai/shape.ts";
import type { AnsweredCall } from "../openai/tool-calls.ts";
import type { Frame } from "../sse.ts";

/** What an answer's form depends on beside the answer itself. */
export interface MessageOptions {
  model: string;
  /** What was asked for: an answer that ended earlier ended with the context. */
  maxTokens: number;
  /** First token behind the last breakpoint of `cache_control`; 0 without one. */
  cachedUpTo: number;
  /** The request has `context_management`. */
  managed: boolean;
}

type Block = { type: "thinking"; thinking: string; signature: string } | { type: "text"; text: string } | { type: "tool_use"; id: string; name: string; input: unknown };

const useId = (call: AnsweredCall) => call.id.replace("call_", "toolu_");
const frame = (event: string, data: object): Frame => ({ event, data: { type: event, ...data } });

/** Answers in Anthropic's form: a message of blocks, or its events. */
export function messageShape(options: MessageOptions): AnswerShape {
  const head = { id: `msg_${randomUUID().replaceAll("-", "")}`, type: "message", role: "assistant", model: options.model };
  const blocks = new BlockFrames();
  const ids: number[] = [];
  return {
    begin: ({ promptIds, returnTokenIds }) => {
      const usage = { input_tokens: promptIds.length, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
      const message = { ...head, content: [], stop_reason: null, stop_sequence: null, usage };
      return [frame("message_start", { message: returnTokenIds ? { ...message, prompt_token_ids: Array.from(promptIds) } : message })];
    },
    piece: ({ thinking, text, calls, tokens }) => {
      ids.push(...tokens.map(({ id }) => id));
      return [...blocks.thinking(thinking), ...blocks.text(text), ...calls.flatMap((call) => blocks.call(call))];
    },
    finish: (ending, answer) => [
      ...blocks.close(),
      frame("message_delta", {
        delta: reasonOf(ending, options),
        usage: usageOf(ending, options),
        ...end(ending, answer, options),
        ...(answer.returnTokenIds ? { token_ids: ids } : {}),
      }),
      frame("message_stop", {}),
    ],
    failed: (error) => [{ event: "error", data: anthropicErrorBody(error) }],
    whole: (all, ending, answer) => ({
      ...head,
      content: blocksOf(all),
      ...reasonOf(ending, options),
      usage: usageOf(ending, options),
      ...end(ending, answer, options),
      ...(answer.returnTokenIds ? { prompt_token_ids: Array.from(answer.promptIds), token_ids: all.flatMap(({ tokens }) => tokens.map(({ id }) => id)) } : {}),
    }),
  };
}

/** The events of a message's blocks: each opens, grows and closes before the next. */
class BlockFrames {
  #index = 0;
  #open: Block["type"] | null = null;

  thinking(thinking: string): Frame[] {
    return thinking === "" ? [] : this.#grow({ type: "thinking", thinking: "", signature: "" }, { type: "thinking_delta", thinking });
  }

  text(text: string): Frame[] {
    return text === "" ? [] : this.#grow({ type: "text", text: "" }, { type: "text_delta", text });
  }

  call(call: AnsweredCall): Frame[] {
    const block: Block = { type: "tool_use", id: useId(call), name: call.name, input: {} };
    return [...this.close(), ...this.#grow(block, { type: "input_json_delta", partial_json: call.arguments }), ...this.close()];
  }

  /** Adds to the open block where it is of that type, else to one that is opened for it. */
  #grow(empty: Block, delta: object): Frame[] {
    const opening = this.#open === empty.type ? [] : [...this.close(), frame("content_block_start", { index: this.#index, content_block: empty })];
    this.#open = empty.type;
    return [...opening, frame("content_block_delta", { index: this.#index, delta })];
  }

  close(): Frame[] {
    if (this.#open === null) return [];
    this.#open = null;
    return [frame("content_block_stop", { index: this.#index++ })];
  }
}

function blocksOf(all: readonly Piece[]): Block[] {
  const blocks: Block[] = [];
  for (const { thinking, text, calls } of all) {
    const last = blocks.at(-1);
    if (thinking !== "" && last?.type === "thinking") last.thinking += thinking;
    else if (thinking !== "") blocks.push({ type: "thinking", thinking, signature: "" });
    if (text !== "" && last?.type === "text") last.text += text;
    else if (text !== "") blocks.push({ type: "text", text });
    for (const call of calls) blocks.push({ type: "tool_use", id: useId(call), name: call.name, input: JSON.parse(call.arguments) as unknown });
  }
  return blocks;
}

function reasonOf({ reason, stop, calls, completionTokens }: Ending, { maxTokens }: MessageOptions): { stop_reason: string; stop_sequence: string | null } {
  if (stop !== null) return { stop_reason: "stop_sequence", stop_sequence: stop };
  if (reason === "length") return { stop_reason: completionTokens < maxTokens ? "model_context_window_exceeded" : "max_tokens", stop_sequence: null };
  return { stop_reason: calls > 0 ? "tool_use" : "end_turn", stop_sequence: null };
}

/**
 * Cells that were read from the cache, those computed up to the last breakpoint (and so kept for its time), and the other computed ones:
 * together what the model was given. What edits hid is in none of them.
 */
function usageOf({ report, completionTokens }: Ending, { cachedUpTo }: MessageOptions): object {
  const computed = report.computed_tokens;
  const created = cachedUpTo === 0 ? 0 : computed - Math.min(computed, report.prompt_tokens - cachedUpTo);
  return {
    input_tokens: computed - created,
    cache_creation_input_tokens: created,
    cache_read_input_tokens: report.cached_tokens + report.repositioned_tokens,
    output_tokens: completionTokens,
  };
}

/** What stands once, at the end. */
function end(ending: Ending, answer: Answerable, { managed }: MessageOptions): object {
  return { ...(managed ? { context_management: { applied_edits: appliedEdits(answer.folded.fold) } } : {}), ...closing(answer, ending) };
}
