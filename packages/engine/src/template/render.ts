import { EngineError } from "../errors.ts";
import { type ChatMessage, type ChatTool, templateInput } from "./chat-messages.ts";
import { type FunctionLike, type Node, type Scope, isText, makeScope, values } from "./jinja.ts";
import { type Piece, SCAFFOLD, TracedText, compactPieces, piecesOf, slicePieces } from "./traced-text.ts";
import { TracingInterpreter } from "./tracing-interpreter.ts";

/** What one rendering needs. */
export interface RenderRequest {
  messages: readonly ChatMessage[];
  tools?: readonly ChatTool[] | undefined;
  addGenerationPrompt: boolean;
  /** Further variables for the template, such as `enable_thinking`. Their texts are data. */
  variables?: Readonly<Record<string, unknown>> | undefined;
  /** Show the reasoning of earlier turns too, where the template would leave it out: what hides it is then a directive, not the text. */
  keepReasoning?: boolean | undefined;
}

/** What a template is rendered with that does not change from request to request. */
export interface RenderContext {
  program: Node;
  /** The same with the reasoning of every turn. */
  keepingReasoning: Node;
  bosText: string;
  eosText: string;
  typedContent: boolean;
  /** What `tools` is where the request has none: undefined for most templates, an empty list for those that loop over it unasked. */
  emptyTools: boolean;
  /** The clock that `strftime_now` reads. */
  now: () => Date;
}

/** A template that calls `raise_exception`: it does not accept these messages. */
class TemplateRefusal extends Error {}

/**
 * Renders a chat. The pieces are in order, each with its message: what nobody owns belongs to the message before it, or to the first,
 * and so does template text that comes after a later message began.
 *
 * @throws EngineError `messages_invalid` where the template refuses the messages, `template_reordered` where it renders them in
 *   another order than they have
 */
export function renderPieces(context: RenderContext, asked: RenderRequest): Piece[] {
  const count = asked.messages.length;
  const { request, pieces: evaluated } = evaluateInPlace(context, asked);
  let pieces = evaluated;
  if (request.addGenerationPrompt && !pieces.some((piece) => piece.origin.owner === count)) {
    pieces = splitHeader(pieces, evaluateTemplate(context, { ...request, addGenerationPrompt: false }), count);
  }
  let owner = 0;
  const owned = pieces.map(({ text, origin }): Piece => {
    // What a template writes around a message that it renders inside another, it writes after it: that moves no message's own text.
    const own = origin.owner < 0 || (origin.owner < owner && !origin.data) ? owner : origin.owner;
    if (own < owner) {
      const before = owner === count ? "the generation header" : `messages[${owner}]`;
      const message = `the model's chat template renders a part of messages[${own}] after ${before}: it reorders messages, which is not supported`;
      throw new EngineError("template_reordered", message, `messages[${own}]`);
    }
    owner = own;
    return { text, origin: { ...origin, owner } };
  });
  return compactPieces(owned);
}

/**
 * Some templates refuse a system message that is not the first. Moved to the front it would change what every later turn begins with,
 * so it stays where it is and is shown as a user's.
 */
function evaluateInPlace(context: RenderContext, request: RenderRequest): { request: RenderRequest; pieces: readonly Piece[] } {
  try {
    return { request, pieces: evaluateTemplate(context, request) };
  } catch (error) {
    const messages = request.messages.map((message, index) => (index > 0 && isSystem(message) ? Object.assign({}, message, { role: "user" }) : message));
    const isRefused = error instanceof EngineError && error.cause instanceof TemplateRefusal;
    if (!isRefused || messages.every((message, index) => message === request.messages[index])) throw error;
    const shown = { ...request, messages };
    return { request: shown, pieces: evaluateTemplate(context, shown) };
  }
}

const isSystem = ({ role }: ChatMessage): boolean => role === "system" || role === "developer";

function evaluateTemplate(context: RenderContext, request: RenderRequest, wrapArguments = false): readonly Piece[] {
  const input = templateInput(request.messages, request.tools ?? [], { typedContent: context.typedContent, wrapArguments });
  const scope = makeScope();
  for (const [name, value] of Object.entries(request.variables ?? {})) scope.set(name, value);
  setGlobals(scope, context);
  scope.setVariable("messages", input.messages);
  scope.setVariable("add_generation_prompt", new values.boolean(request.addGenerationPrompt));
  if (input.tools !== null) scope.setVariable("tools", input.tools);
  else if (context.emptyTools) scope.setVariable("tools", new values.list([]));
  try {
    const result = new TracingInterpreter(scope, input.origins, request.messages.length).run(request.keepReasoning === true ? context.keepingReasoning : context.program);
    return isText(result) ? piecesOf(result) : [];
  } catch (error) {
    if (error instanceof EngineError) throw error;
    // A template may only be able to show arguments that are an object, and must not make a chat unusable because a call was cut off.
    if (input.hasOpaqueArguments && !wrapArguments) return evaluateTemplate(context, request, true);
    const reason = error instanceof Error ? error.message : String(error);
    const refused = error instanceof TemplateRefusal ? "refuses these messages" : "cannot render these messages";
    throw new EngineError("messages_invalid", `the model's chat template ${refused}: ${reason}`, "messages", { cause: error });
  }
}

/** Where the tree does not say what is the header: what asking for one adds at the end. */
function splitHeader(pieces: readonly Piece[], without: readonly Piece[], owner: number): readonly Piece[] {
  const text = new TracedText(pieces).value;
  const body = new TracedText(without).value;
  if (text === body || !text.startsWith(body)) return pieces;
  const header = slicePieces(pieces, body.length, text.length);
  return [...slicePieces(pieces, 0, body.length), ...header.map((piece) => ({ text: piece.text, origin: { ...piece.origin, owner, part: null } }))];
}

function setGlobals(scope: Scope, context: RenderContext): void {
  for (const [name, value] of [["true", true], ["false", false], ["none", null], ["True", true], ["False", false], ["None", null]] as const) {
    scope.setVariable(name, value === null ? new values.null(null) : new values.boolean(value));
  }
  scope.setVariable("bos_token", TracedText.of(context.bosText, SCAFFOLD));
  scope.setVariable("eos_token", TracedText.of(context.eosText, SCAFFOLD));
  const define = (name: string, call: FunctionLike["value"]) => scope.setVariable(name, new values.function(call));
  define("raise_exception", ([reason]) => {
    throw new TemplateRefusal(reason === undefined ? "no reason given" : String(reason.value));
  });
  define("strftime_now", ([format]) => new values.text(formatTime(context.now(), String(format?.value ?? ""))));
  define("range", (args) => {
    const [first = 0, second, step = 1] = args.map((value) => Number(value.value));
    const [start, stop] = second === undefined ? [0, first] : [first, second];
    const numbers: number[] = [];
    for (let at = start; step > 0 ? at < stop : step < 0 && at > stop; at += step) numbers.push(at);
    return new values.list(numbers.map((number) => new values.integer(number)));
  });
}

const pad = (value: number, width = 2) => String(value).padStart(width, "0");

/** The directives of C's strftime that templates use, in local time; others stay as they are. */
function formatTime(now: Date, format: string): string {
  const name = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat("en-US", options).format(now);
  const directives: Readonly<Record<string, () => string>> = {
    Y: () => String(now.getFullYear()),
    y: () => pad(now.getFullYear() % 100),
    m: () => pad(now.getMonth() + 1),
    d: () => pad(now.getDate()),
    H: () => pad(now.getHours()),
    I: () => pad(now.getHours() % 12 || 12),
    M: () => pad(now.getMinutes()),
    S: () => pad(now.getSeconds()),
    p: () => (now.getHours() < 12 ? "AM" : "PM"),
    B: () => name({ month: "long" }),
    b: () => name({ month: "short" }),
    A: () => name({ weekday: "long" }),
    a: () => name({ weekday: "short" }),
    "%": () => "%",
  };
  return format.replace(/%([A-Za-z%])/g, (whole, directive: string) => directives[directive]?.() ?? whole);
}
