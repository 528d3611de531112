import type { Erased, Generation, Report, TextAssembly, TokenLogprob } from "@palimpsest/engine";

/** A token as log-probabilities show it. `score` is null where there is none to give (the first token of a prompt). */
export interface AnswerToken {
  id: number;
  score: TokenLogprob | null;
}

/** A stretch of an answer that can be shown: its text, and the tokens that completed it. */
export interface Piece {
  text: string;
  tokens: AnswerToken[];
  /** False for the prompt that `echo` repeats. */
  generated: boolean;
}

export interface Ending {
  reason: "stop" | "length";
  report: Report;
  /** Tokens generated, whether shown or not; the one that ended the answer is none of them. */
  completionTokens: number;
  /** Cells of the answer that later turns will not see, where the request asked for that. */
  scratched?: number | undefined;
  /** What the log's forgets erased. */
  erased?: Erased | undefined;
}

/** Text of the prompt, and its token ids, for `echo`. */
export interface EchoedPrompt {
  text: string;
  ids: ArrayLike<number>;
}

/**
 * Reads a running answer into pieces. A token whose text is held back waits with its score for the next piece, so texts, ids and scores
 * of all pieces together are the same for every grouping of tokens.
 */
export async function* pieces(source: Generation, assembly: TextAssembly, echo: EchoedPrompt | null): AsyncGenerator<Piece, Ending> {
  let held: AnswerToken[] = [];
  let completionTokens = 0;
  let stopped = false;
  if (echo !== null && echo.ids.length === 0) yield { text: echo.text, tokens: [], generated: false };
  for await (const event of source) {
    if (event.type === "prompt") {
      if (echo !== null) yield promptPiece(echo, event.scores);
    } else if (event.type === "token") {
      if (stopped) continue;
      completionTokens++;
      held.push({ id: event.id, score: event.logprob ?? null });
      const step = assembly.push(event.id);
      if (step.text !== "") {
        yield { text: step.text, tokens: held, generated: true };
        held = [];
      }
      if (step.stopped) {
        stopped = true;
        source.stop();
      }
    } else {
      const rest = stopped ? "" : assembly.end();
      if (rest !== "" || held.length > 0) yield { text: rest, tokens: held, generated: true };
      return { reason: stopped ? "stop" : event.reason, report: event.report, completionTokens, scratched: event.scratched, erased: event.erased };
    }
  }
  throw new Error("an answer ended without an end event");
}

function promptPiece(echo: EchoedPrompt, scores: readonly (TokenLogprob | null)[]): Piece {
  const tokens = Array.from(echo.ids, (id, index) => ({ id, score: scores[index] ?? null }));
  return { text: echo.text, tokens, generated: false };
}
