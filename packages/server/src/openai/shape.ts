import { openAIErrorBody } from "../errors.ts";
import type { Frame } from "../sse.ts";
import type { Ending, Piece } from "./answer.ts";
import { receiptBody } from "./erase.ts";
import type { Answerable, AnswerShape } from "./respond.ts";
import { reportBody, usageOf } from "./usage.ts";

/** What distinguishes OpenAI's two endpoints: their choices. */
export interface Choices {
  /** Fields that every object of the answer carries. */
  readonly head: Readonly<Record<string, unknown>>;
  /** The `object` of a whole answer. */
  readonly wholeName: string;
  /** The choice of each chunk of a piece. */
  piece(piece: Piece, first: boolean): object[];
  /** The choice of the last chunk that has one. */
  finish(ending: Ending, first: boolean): object;
  /** The choice of the whole answer. */
  whole(all: readonly Piece[], ending: Ending): object;
}

const DONE: Frame = { data: "[DONE]" };

/** Answers in OpenAI's form: chunks of one choice, usage at the end, `[DONE]`. */
export function openAIShape(choices: Choices): AnswerShape {
  let first = true;
  const chunk = (answer: Answerable, list: readonly object[], more: object = {}): Frame => {
    const usage = hasUsageChunk(answer) ? { usage: null } : {};
    const ids = first && answer.returnTokenIds ? { prompt_token_ids: Array.from(answer.promptIds) } : {};
    first = false;
    return { data: { ...choices.head, choices: list, ...usage, ...ids, ...more } };
  };
  return {
    begin: () => [],
    piece: (piece, answer) => choices.piece(piece, first).map((choice) => chunk(answer, [choice])),
    finish: (ending, answer) => {
      const last = closing(answer, ending);
      const choice = choices.finish(ending, first);
      if (!hasUsageChunk(answer)) return [chunk(answer, [choice], last), DONE];
      return [chunk(answer, [choice]), chunk(answer, [], { usage: usageOf(ending.report, ending.completionTokens, answer.folded.context), ...last }), DONE];
    },
    failed: (error) => [{ data: openAIErrorBody(error) }, DONE],
    whole: (all, ending, answer) => ({
      ...choices.head,
      object: choices.wholeName,
      choices: [choices.whole(all, ending)],
      usage: usageOf(ending.report, ending.completionTokens, answer.folded.context),
      ...(answer.returnTokenIds ? { prompt_token_ids: Array.from(answer.promptIds) } : {}),
      ...closing(answer, ending),
    }),
  };
}

const hasUsageChunk = ({ includeUsage, folded }: Answerable) => includeUsage || folded.context;

/** What an answer says of itself beside its report. */
function beside({ scratched, erased }: Ending): object {
  return { ...(scratched === undefined ? {} : { scratched_tokens: scratched }), ...(erased === undefined ? {} : { erased: receiptBody(erased) }) };
}

/** What stands once, at the end of an answer. */
export function closing(answer: Answerable, ending: Ending): { cache?: object; warnings?: readonly string[] } {
  return {
    ...(answer.report || answer.folded.context ? { cache: { ...reportBody(ending.report, answer.folded, answer.tokenizer), ...beside(ending) } } : {}),
    ...(answer.warnings.length > 0 ? { warnings: answer.warnings } : {}),
  };
}
