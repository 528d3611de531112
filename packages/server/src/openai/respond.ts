import type { Generation, TextAssembly } from "@palimpsest/engine";
import type { FastifyReply, FastifyRequest } from "fastify";
import { openAIErrorBody, publicError } from "../errors.ts";
import { abortReason, inPlace } from "../place.ts";
import { EventStream, type Delivery } from "../sse.ts";
import type { ServerContext } from "../context.ts";
import type { TokenizerPort } from "../service.ts";
import { pieces, type EchoedPrompt, type Ending, type Piece } from "./answer.ts";
import { receiptBody } from "./erase.ts";
import type { Folded } from "./prepare.ts";
import { reportBody, usageOf } from "./usage.ts";

/** How one endpoint writes its answers. The order of calls in a stream: `piece` for each piece, then `finish`. */
export interface AnswerShape {
  /** Fields that every object of the answer carries. */
  readonly head: Readonly<Record<string, unknown>>;
  /** The `object` of a whole answer. */
  readonly wholeName: string;
  /** `choices` of one chunk. */
  piece(piece: Piece, first: boolean): unknown[];
  /** `choices` of the last chunk that has any. */
  finish(reason: Ending["reason"], first: boolean): unknown[];
  /** `choices` of the whole answer. */
  whole(all: readonly Piece[], reason: Ending["reason"]): unknown[];
}

/** One request, checked and folded, ready to be computed. */
export interface Answerable {
  shape: AnswerShape;
  /** Starts the computation. What cannot be admitted at all throws here, before any header is sent. */
  start(signal: AbortSignal): Generation;
  assembly: TextAssembly;
  echo: EchoedPrompt | null;
  promptIds: ArrayLike<number>;
  folded: Folded;
  tokenizer: TokenizerPort;
  report: boolean;
  stream: boolean;
  includeUsage: boolean;
  returnTokenIds: boolean;
  warnings: readonly string[];
}

/** Reads a request, computes its answer and sends it, whole or as a stream. A client that leaves ends all of it. */
export function respond(context: ServerContext, request: FastifyRequest, reply: FastifyReply, read: (signal: AbortSignal) => Promise<Answerable>): Promise<unknown> {
  return inPlace(context, reply, async (signal) => {
    const answer = await read(signal);
    const source = observe(context, answer.start(signal), performance.now());
    return answer.stream ? sendStream(context, request, reply, answer, source, signal) : collect(context, answer, source);
  });
}

/** The whole answer as one object. */
async function collect(context: ServerContext, answer: Answerable, source: Generation): Promise<unknown> {
  const all: Piece[] = [];
  const iterator = pieces(source, answer.assembly, answer.echo);
  for (;;) {
    const next = await iterator.next();
    if (next.done !== true) {
      all.push(next.value);
      continue;
    }
    const ending = next.value;
    countTokens(context, ending);
    return {
      ...answer.shape.head,
      object: answer.shape.wholeName,
      choices: answer.shape.whole(all, ending.reason),
      usage: usageOf(ending.report, ending.completionTokens, answer.folded.context),
      ...(answer.returnTokenIds ? { prompt_token_ids: Array.from(answer.promptIds) } : {}),
      ...closing(answer, ending),
    };
  }
}

async function sendStream(context: ServerContext, request: FastifyRequest, reply: FastifyReply, answer: Answerable, source: Generation, signal: AbortSignal): Promise<void> {
  const iterator = pieces(source, answer.assembly, answer.echo);
  const first = iterator.next();
  await settled(first, context.limits.refusalMs);
  reply.hijack();
  const headers = Object.fromEntries(Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]));
  const stream = new EventStream(reply.raw, { heartbeatMs: context.limits.heartbeatMs, stallMsMax: context.limits.stallMsMax, headers });
  stream.open();
  let delivery: Delivery = "ok";
  try {
    delivery = await sendPieces(context, answer, iterator, first, stream);
  } catch (thrown) {
    const error = publicError(abortReason(signal) ?? thrown);
    if (error.kind === "internal") request.log.error(thrown, "an answer failed while it was streamed");
    if (!stream.closed) {
      await stream.send(openAIErrorBody(error));
      await stream.send("[DONE]");
    }
  }
  stream.end(delivery);
}

type Pieces = ReturnType<typeof pieces>;

/** Waits for a promise, but only so long. What is refused meanwhile throws, and gets a status of its own instead of an error in a stream. */
async function settled(promise: Promise<unknown>, waitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, waitMs);
  });
  // Whoever reads it later gets the rejection too; here it must not count as unhandled in between.
  await Promise.race([promise, over]).finally(() => clearTimeout(timer));
}

async function sendPieces(context: ServerContext, answer: Answerable, iterator: Pieces, earliest: ReturnType<Pieces["next"]>, stream: EventStream): Promise<Delivery> {
  const { shape } = answer;
  const usageChunk = answer.includeUsage || answer.folded.context;
  const usageNull = usageChunk ? { usage: null } : {};
  let first = true;
  const send = (choices: unknown[], more: object = {}) => {
    const ids = first && answer.returnTokenIds ? { prompt_token_ids: Array.from(answer.promptIds) } : {};
    first = false;
    return stream.send({ ...shape.head, choices, ...usageNull, ...ids, ...more });
  };
  for (let next = await earliest; ; next = await iterator.next()) {
    if (next.done === true) {
      const ending = next.value;
      countTokens(context, ending);
      const last = closing(answer, ending);
      let delivery = await send(shape.finish(ending.reason, first), usageChunk ? {} : last);
      if (usageChunk && delivery === "ok") delivery = await send([], { usage: usageOf(ending.report, ending.completionTokens, answer.folded.context), ...last });
      return delivery === "ok" ? stream.send("[DONE]") : delivery;
    }
    const delivery = await send(shape.piece(next.value, first));
    if (delivery !== "ok") {
      // Leaving the iteration gives the answer's pages back.
      await iterator.return(undefined as never);
      return delivery;
    }
  }
}

/** What an answer says of itself beside its report. */
function beside({ scratched, erased }: Ending): object {
  return { ...(scratched === undefined ? {} : { scratched_tokens: scratched }), ...(erased === undefined ? {} : { erased: receiptBody(erased) }) };
}

/** What stands once, at the end of an answer. */
function closing(answer: Answerable, ending: Ending): object {
  return {
    ...(answer.report || answer.folded.context ? { cache: { ...reportBody(ending.report, answer.folded, answer.tokenizer), ...beside(ending) } } : {}),
    ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}),
  };
}

function observe(context: ServerContext, source: Generation, startedMs: number): Generation {
  return {
    stop: () => source.stop(),
    async *[Symbol.asyncIterator]() {
      let first = true;
      for await (const event of source) {
        if (first && event.type !== "end") {
          first = false;
          context.metrics.observeSeconds("palimpsest_time_to_first_token_seconds", "From the checked request to its first token.", (performance.now() - startedMs) / 1000);
        }
        yield event;
      }
      context.metrics.observeSeconds("palimpsest_answer_seconds", "From the checked request to the end of its answer.", (performance.now() - startedMs) / 1000);
    },
  };
}

function countTokens({ metrics }: ServerContext, { report, completionTokens }: Ending): void {
  const prompt = (how: string, value: number) => metrics.add("palimpsest_prompt_cells_total", "Cells of prompts, by what was done with them; each counts once.", value, { how });
  prompt("cached", report.cached_tokens);
  prompt("repositioned", report.repositioned_tokens);
  prompt("computed", report.computed_tokens);
  prompt("skipped", report.skipped_tokens);
  metrics.add("palimpsest_prompt_tokens_total", "Tokens of prompts, raw.", report.prompt_tokens);
  metrics.add("palimpsest_generated_tokens_total", "Tokens generated.", completionTokens);
  metrics.add("palimpsest_recovered_cells_total", "Cells computed again because they had been evicted and were needed.", report.recovered_tokens);
}
