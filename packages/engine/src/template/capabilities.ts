import { EngineError } from "../errors.ts";
import type { ChatMessage } from "./chat-messages.ts";
import { mentionsName, mentionsVariable } from "./jinja.ts";
import { type RenderContext, renderPieces } from "./render.ts";
import { marksAround, THINK_TAGS, type ThinkingMarks } from "./reasoning.ts";
import { textOf } from "./traced-text.ts";

/** What a chat template can do, found out when the model is loaded. */
export interface TemplateCapabilities {
  /** Shows tools to the model. */
  tools: boolean;
  /** Renders the calls of earlier turns. */
  toolCalls: boolean;
  /**
   * The form in which the template writes calls, and the model therefore too, where it is a known one: `hermes` is
   * `<tool_call>{"name": …, "arguments": …}</tool_call>`.
   */
  toolCallFormat: "hermes" | null;
  /** Renders `reasoning_content`. */
  reasoning: boolean;
  /** What the model writes around its reasoning: as the template renders it, or tags that stand in the content. */
  thinking: ThinkingMarks;
  /** Accepts a system message. */
  system: boolean;
  /**
   * A prompt and its answer stay a prefix of the next turn's prompt. Where this is false, every turn computes a part of the history
   * again, or drops it by a directive; `warnings` says which part of a chat is concerned.
   */
  prefixStable: boolean;
  /** Writes the date or time: prompts differ from day to day. */
  readsClock: boolean;
  /** Sentences for people about what of the above will surprise them. */
  warnings: readonly string[];
}

const USER: ChatMessage = { role: "user", content: "Probe one" };
const ANSWER: ChatMessage = { role: "assistant", content: "Probe two" };
const AGAIN: ChatMessage = { role: "user", content: "Probe three" };
const SYSTEM: ChatMessage = { role: "system", content: "Probe zero" };
const THOUGHT: ChatMessage = { ...ANSWER, reasoning_content: "Probe thought" };
const CALL: ChatMessage = {
  role: "assistant",
  content: "",
  tool_calls: [{ id: "call12345", type: "function", function: { name: "probe", arguments: { probe: 1 } } }],
};
const RESULT: ChatMessage = { role: "tool", tool_call_id: "call12345", name: "probe", content: "Probe result" };

/** @throws EngineError `template_unsupported` where not even a user's message can be rendered */
export function probeTemplate(base: RenderContext): { capabilities: TemplateCapabilities; context: RenderContext } {
  const { program } = base;
  const shows = (context: RenderContext, message: ChatMessage) => render(context, [message])?.toLowerCase().includes("probe one") ?? false;
  const forms = [base, { ...base, typedContent: true }, { ...base, emptyTools: true }, { ...base, typedContent: true, emptyTools: true }];
  const context = forms.find((form) => shows(form, USER));
  if (context === undefined) throw new EngineError("template_unsupported", unusable(base));

  const tools = mentionsVariable(program, "tools");
  const called = render(context, [USER, CALL, RESULT, AGAIN]) ?? "";
  const toolCalls = called.includes("probe");
  const reasoning = mentionsName(program, "reasoning_content");
  const thinking = marksAround(render(context, [USER, THOUGHT], false, true) ?? "", THOUGHT.reasoning_content!, THOUGHT.content as string) ?? THINK_TAGS;
  const readsClock = ["strftime_now", "date_string", "datetime"].some((name) => mentionsVariable(program, name));
  const unstable = [
    isExtended(context, [USER], ANSWER, AGAIN) ? null : "a plain answer",
    !toolCalls || isExtended(context, [USER], CALL, RESULT) ? null : "a tool call",
    !toolCalls || isExtended(context, [USER, CALL], RESULT, ANSWER) ? null : "a tool result",
    !reasoning || isExtended(context, [USER], THOUGHT, AGAIN) ? null : "an answer with reasoning",
  ].filter((reason) => reason !== null);
  const warnings: string[] = [];
  if (unstable.length > 0) {
    warnings.push(`the chat template renders ${unstable.join(", ")} differently once the chat goes on, so the next turn shares a shorter prefix`);
  }
  if (readsClock) warnings.push("the chat template writes the date or time, so prompts change with it");
  const system = render(context, [SYSTEM, USER])?.toLowerCase().includes("probe zero") ?? false;
  return { context, capabilities: { tools, toolCalls, toolCallFormat: isHermes(called) ? "hermes" : null, reasoning, thinking, system, prefixStable: unstable.length === 0, readsClock, warnings } };
}

/** Whether the probe's call stands in a text as Hermes writes it. */
function isHermes(text: string): boolean {
  const json = /<tool_call>\s*(\{[^]*?\})\s*<\/tool_call>/.exec(text)?.[1];
  try {
    const call = JSON.parse(json ?? "") as { name?: unknown; arguments?: { probe?: unknown } };
    return call.name === "probe" && call.arguments?.probe === 1;
  } catch {
    return false;
  }
}

/** Whether the prompt before an answer, and the chat up to the answer, are both where the next turn's prompt begins. */
function isExtended(context: RenderContext, history: ChatMessage[], answer: ChatMessage, next: ChatMessage): boolean {
  const prompt = render(context, history, true);
  const answered = render(context, [...history, answer]);
  const continued = render(context, [...history, answer, next]);
  // A template that refuses one of the probes says nothing about the chats that it accepts.
  if (prompt === null || answered === null || continued === null) return true;
  const promptHolds = answer.role !== "assistant" || continued.startsWith(prompt);
  return promptHolds && continued.startsWith(answered);
}

function render(context: RenderContext, messages: ChatMessage[], addGenerationPrompt = false, keepReasoning = false): string | null {
  try {
    return textOf(renderPieces(context, { messages, addGenerationPrompt, keepReasoning }));
  } catch (error) {
    if (error instanceof EngineError) return null;
    throw error;
  }
}

function unusable(context: RenderContext): string {
  try {
    renderPieces(context, { messages: [USER], addGenerationPrompt: false });
    return "the model's chat template does not render a user's message";
  } catch (error) {
    return `the model's chat template cannot be used: ${error instanceof Error ? error.message : String(error)}`;
  }
}
