import type { Generation } from "@palimpsest/engine";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ServerContext } from "../context.ts";
import { publicError, type PublicError } from "../errors.ts";
import { abortReason, inPlace } from "../place.ts";
import type { TokenizerPort } from "../service.ts";
import { EventStream, type Delivery, type Frame } from "../sse.ts";
import { pieces, type AnswerReading, type Ending, type Piece } from "./answer.ts";
import type { Folded } from "./prepare.ts";

/** How one endpoint writes one answer. In a stream: `begin`, `piece` for each piece, then `finish`, or `failed` in their place. */
export interface AnswerShape {
  begin(answer: Answerable): Frame[];
  piece(piece: Piece, answer: Answerable): Frame[];
  finish(ending: Ending, answer: Answerable): Frame[];
  failed(error: PublicError): Frame[];
  /** The whole answer as one object. */
  whole(all: readonly Piece[], ending: Ending, answer: Answerable): object;
}

/** One request, checked and folded, ready to be computed. */
export interface Answerable extends AnswerReading {
  shape: AnswerShape;
  /** Starts the computation. What cannot be admitted at all throws here, before any header is sent. */
  start(signal: AbortSignal): Generation;
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

async function collect(context: ServerContext, answer: Answerable, source: Generation): Promise<object> {
  const all: Piece[] = [];
  const iterator = pieces(source, answer);
  for (;;) {
    const next = await iterator.next();
    if (next.done === true) {
      countTokens(context, next.value);
      return answer.shape.whole(all, next.value, answer);
    }
    all.push(next.value);
  }
}

async function sendStream(context: ServerContext, request: FastifyRequest, reply: FastifyReply, answer: Answerable, source: Generation, signal: AbortSignal): Promise<void> {
  const iterator = pieces(source, answer);
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
    await sendAll(stream, answer.shape.failed(error));
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
  let delivery = await sendAll(stream, shape.begin(answer));
  for (let next = await earliest; delivery === "ok"; next = await iterator.next()) {
    if (next.done === true) {
      countTokens(context, next.value);
      return sendAll(stream, shape.finish(next.value, answer));
    }
    delivery = await sendAll(stream, shape.piece(next.value, answer));
    if (delivery !== "ok") break;
  }
  // Leaving the iteration gives the answer's pages back.
  await iterator.return(undefined as never);
  return delivery;
}

/** Sends frames up to the first that finds no taker. */
async function sendAll(stream: EventStream, frames: readonly Frame[]): Promise<Delivery> {
  for (const { data, event } of frames) {
    const delivery = await stream.send(data, event);
    if (delivery !== "ok") return delivery;
  }
  return "ok";
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
        // Before it is handed on: whoever takes the end asks for nothing more, and what stands behind the loop would never run.
        if (event.type === "end") {
          context.metrics.observeSeconds("palimpsest_answer_seconds", "From the checked request to the end of its answer.", (performance.now() - startedMs) / 1000);
        }
        yield event;
      }
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
