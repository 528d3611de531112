import type { ChatLog } from "@palimpsest/directives";
import { EngineError } from "../errors.ts";
import type { EncodeOptions, Encoding, Slices, SpecialMatch, Tokenizer } from "../tokenizer/index.ts";
import { type TemplateCapabilities, probeTemplate } from "./capabilities.ts";
import { chatLog } from "./chat-log.ts";
import type { ChatMessage } from "./chat-messages.ts";
import { type Node, parseTemplate } from "./jinja.ts";
import { keepingReasoning } from "./reasoning.ts";
import { type RenderContext, type RenderRequest, renderPieces } from "./render.ts";
import { type Piece, textOf } from "./traced-text.ts";

/** A chat as the model reads it. With a context length it is the log that directives fold. */
export interface RenderedChat {
  tokens: Int32Array;
  /** First token of the generation header; the number of tokens where there is none. */
  header: number;
  chat: ChatLog;
  /** The text that the tokens stand for. */
  text: string;
  /** Sentences about what was given and is not shown to the model. */
  warnings: readonly string[];
}

export interface ChatTemplateOptions {
  /** The clock of templates that write the date. Default: the machine's. */
  now?: () => Date;
}

export interface SlicedOptions {
  slices?: Slices | undefined;
  /** More tokens than this are of no use. */
  tokensMax?: number | undefined;
}

/** A chat that is rendered and not tokenised yet. */
interface Beginning {
  text: string;
  options: EncodeOptions;
  finish: (encoding: Encoding) => RenderedChat;
}

/** Special tokens that a character may be part of. */
const NO_SPECIAL = 0;
const USER_DEFINED = 1;
const ANY_SPECIAL = 2;

/** Who is trusted to write the model's mark-up (`<tool_call>`), though never its control tokens: application and model, not the outside. */
const MARKUP_ROLES: ReadonlySet<string> = new Set(["system", "developer", "assistant"]);

/** The chat template of a model file: messages in, tokens with their owners out. */
export class ChatTemplate {
  readonly capabilities: TemplateCapabilities;
  readonly #context: RenderContext;
  readonly #tokenizer: Tokenizer;

  /** @throws EngineError `template_unsupported` where there is no template or it cannot be used */
  constructor(template: string | null, tokenizer: Tokenizer, options: ChatTemplateOptions = {}) {
    if (template === null || template.trim() === "") {
      throw new EngineError("template_unsupported", "the model file has no chat template; use completions with a prompt instead");
    }
    const program = parse(template);
    const { capabilities, context } = probeTemplate({
      program,
      keepingReasoning: keepingReasoning(program),
      bosText: tokenizer.bos === null ? "" : tokenizer.decode([tokenizer.bos]),
      eosText: tokenizer.eos === null ? "" : tokenizer.decode([tokenizer.eos]),
      typedContent: false,
      emptyTools: false,
      now: options.now ?? (() => new Date()),
    });
    this.capabilities = capabilities;
    this.#context = context;
    this.#tokenizer = tokenizer;
  }

  /**
   * Renders and tokenises a chat in one piece. Text of the template may produce control tokens; text of the request never does.
   *
   * @throws EngineError `messages_invalid`, `content_unsupported`, `template_reordered`
   */
  render(request: RenderRequest): RenderedChat {
    const { text, options, finish } = this.#begin(request);
    return finish(this.#tokenizer.encodeWithOffsets(text, options));
  }

  /**
   * The same, tokenised a few milliseconds at a time. A chat that cannot come to `tokensMax` tokens or fewer is refused before that.
   *
   * @throws EngineError as `render`, and `context_length_exceeded`
   */
  async renderInSlices(request: RenderRequest, { slices, tokensMax = Infinity }: SlicedOptions = {}): Promise<RenderedChat> {
    const { text, options, finish } = this.#begin(request);
    const fewest = tokensMax === Infinity ? 0 : this.#tokenizer.fewestTokens(text);
    if (fewest > tokensMax) {
      const message = `the model's context is ${tokensMax} tokens and the chat takes at least ${fewest}; shorten it, or drop parts of it and reposition`;
      throw new EngineError("context_length_exceeded", message, "messages");
    }
    return finish(await this.#tokenizer.encodeInSlices(text, options, slices));
  }

  #begin(request: RenderRequest): Beginning {
    const pieces = renderPieces(this.#context, request);
    const text = textOf(pieces);
    const roles = request.messages.map((message) => message.role);
    const allowed = specialByUnit(pieces, text.length, roles);
    const options = {
      special: (match: SpecialMatch) => isMeant(match, allowed),
      bos: this.#tokenizer.bos !== null && !beginsWithToken(text, allowed, this.#context.bosText),
    };
    const finish = (encoding: Encoding): RenderedChat => {
      const chat = chatLog(pieces, text, encoding, roles);
      const header = chat.owners.indexOf(roles.length);
      return { tokens: encoding.ids, header: header < 0 ? encoding.ids.length : header, chat, text, warnings: this.#warnings(request, pieces) };
    };
    return { text, options, finish };
  }

  #warnings(request: RenderRequest, pieces: readonly Piece[]): string[] {
    const warnings: string[] = [];
    if ((request.tools?.length ?? 0) > 0 && !this.capabilities.tools) {
      warnings.push("tools: the model's chat template has no place for tools; they are not shown to the model");
    }
    for (const [index, message] of request.messages.entries()) {
      const parts = new Set(pieces.filter((piece) => piece.origin.owner === index).map((piece) => piece.origin.part));
      if ((message.tool_calls?.length ?? 0) > 0 && !parts.has("tool_calls")) {
        warnings.push(`messages[${index}].tool_calls: the model's chat template does not render them`);
      }
      const wanted = message.role === "tool" ? "tool_result" : "content";
      if (hasText(message) && !parts.has(wanted) && !parts.has("thinking")) {
        warnings.push(`messages[${index}].content: the model's chat template does not render it`);
      }
    }
    return warnings;
  }
}

function parse(template: string): Node {
  try {
    return parseTemplate(template);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EngineError("template_unsupported", `the model's chat template cannot be parsed: ${reason}`, undefined, { cause: error });
  }
}

const hasText = ({ content }: ChatMessage) => (typeof content === "string" ? content.trim() !== "" : (content ?? []).some((part) => part.text));

/** For each unit of the text the special tokens that it may be part of. */
function specialByUnit(pieces: readonly Piece[], units: number, roles: readonly string[]): Uint8Array {
  const allowed = new Uint8Array(units);
  let at = 0;
  for (const { text, origin } of pieces) {
    allowed.fill(!origin.data ? ANY_SPECIAL : MARKUP_ROLES.has(roles[origin.owner] ?? "") ? USER_DEFINED : NO_SPECIAL, at, at + text.length);
    at += text.length;
  }
  return allowed;
}

/** A special token is meant where all its characters are the template's, or all are of one trusted text and it controls nothing. */
function isMeant({ start, end, token }: SpecialMatch, allowed: Uint8Array): boolean {
  const kind = allowed[start];
  for (let unit = start + 1; unit < end; unit += 1) if (allowed[unit] !== kind) return false;
  return kind === ANY_SPECIAL || (kind === USER_DEFINED && !token.control);
}

function beginsWithToken(text: string, allowed: Uint8Array, token: string): boolean {
  return token !== "" && text.startsWith(token) && allowed.subarray(0, token.length).every((kind) => kind === ANY_SPECIAL);
}
