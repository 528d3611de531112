import type { Erased, Generation, Report, TextAssembly, TokenLogprob } from "@palimpsest/engine";
import type { AnsweredCall, ToolCallReader } from "./tool-calls.ts";

/** A token as log-probabilities show it. `score` is null where there is none to give (the first token of a prompt). */
export interface AnswerToken {
  id: number;
  score: TokenLogprob | null;
}

/** A stretch of an answer that can be shown: its text, then its calls of tools, and the tokens that completed it. */
export interface Piece {
  text: string;
  calls: readonly AnsweredCall[];
  tokens: AnswerToken[];
  /** False for the prompt that `echo` repeats. */
  generated: boolean;
}

export interface Ending {
  reason: "stop" | "length";
  /** The stop string that ended the answer. */
  stop: string | null;
  report: Report;
  /** What the request's forgets erased. */
  erased: Erased | undefined;
  /** Tokens generated, whether shown or not; the one that ended the answer is none of them. */
  completionTokens: number;
  /** Cells of the answer that later turns will not see, where the request asked for that. */
  scratched: number | undefined;
  /** Calls of tools in the answer. */
  calls: number;
}

/** Text of the prompt, and its token ids, for `echo`. */
export interface EchoedPrompt {
  text: string;
  ids: ArrayLike<number>;
}

/** How the text of an answer is put together. */
export interface AnswerReading {
  assembly: TextAssembly;
  /** Null: calls of tools stay text. */
  calls: ToolCallReader | null;
  echo: EchoedPrompt | null;
}

/**
 * Reads a running answer into pieces. A token whose text is held back waits with its score for the next piece, so texts, calls, ids and
 * scores of all pieces together are the same for every grouping of tokens.
 */
export async function* pieces(source: Generation, { assembly, calls, echo }: AnswerReading): AsyncGenerator<Piece, Ending> {
  let held: AnswerToken[] = [];
  let completionTokens = 0;
  let stopped = false;
  let called = 0;
  const shown = (parts: readonly Pick<Piece, "text" | "calls">[]): Piece[] => {
    const list = parts.map((part, index): Piece => ({ ...part, tokens: index === 0 ? held : [], generated: true }));
    if (list.length > 0) held = [];
    called += list.reduce((sum, piece) => sum + piece.calls.length, 0);
    return list;
  };
  if (echo !== null && echo.ids.length === 0) yield { text: echo.text, calls: [], tokens: [], generated: false };
  for await (const event of source) {
    if (event.type === "prompt") {
      if (echo !== null) yield promptPiece(echo, event.scores);
    } else if (event.type === "token") {
      if (stopped) continue;
      completionTokens++;
      held.push({ id: event.id, score: event.logprob ?? null });
      const step = assembly.push(event.id);
      yield* shown(calls === null ? plain(step.text) : calls.push(step.text));
      if (step.stopped) {
        stopped = true;
        source.stop();
      }
    } else {
      const rest = stopped ? "" : assembly.end();
      yield* shown(calls === null ? plain(rest) : [...calls.push(rest), ...calls.end()]);
      if (held.length > 0) yield* shown([{ text: "", calls: [] }]);
      const reason = stopped ? "stop" : event.reason;
      return { reason, stop: assembly.stop, report: event.report, scratched: event.scratched, erased: event.erased, completionTokens, calls: called };
    }
  }
  throw new Error("an answer ended without an end event");
}

const plain = (text: string): Pick<Piece, "text" | "calls">[] => (text === "" ? [] : [{ text, calls: [] }]);

function promptPiece(echo: EchoedPrompt, scores: readonly (TokenLogprob | null)[]): Piece {
  const tokens = Array.from(echo.ids, (id, index) => ({ id, score: scores[index] ?? null }));
  return { text: echo.text, calls: [], tokens, generated: false };
}
