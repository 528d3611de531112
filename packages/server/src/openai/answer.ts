import type { Erased, Generation, Report, TextAssembly, TokenLogprob } from "@palimpsest/engine";
import type { ThinkingReader } from "./thinking.ts";
import type { AnsweredCall, ToolCallReader } from "./tool-calls.ts";

/** A token as log-probabilities show it. `score` is null where there is none to give (the first token of a prompt). */
export interface AnswerToken {
  id: number;
  score: TokenLogprob | null;
}

/** A stretch of an answer that can be shown: its reasoning, its text, then its calls of tools, and the tokens that completed it. */
export interface Piece {
  /** Always "" where reasoning is not told apart. */
  thinking: string;
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
  /** Null: reasoning stays text. */
  thinking: ThinkingReader | null;
  /** Null: calls of tools stay text. */
  calls: ToolCallReader | null;
  echo: EchoedPrompt | null;
}

/**
 * Reads a running answer into pieces. A token whose text is held back waits with its score for the next piece, so texts, calls, ids and
 * scores of all pieces together are the same for every grouping of tokens.
 */
export async function* pieces(source: Generation, reading: AnswerReading): AsyncGenerator<Piece, Ending> {
  const { assembly, echo } = reading;
  let held: AnswerToken[] = [];
  let completionTokens = 0;
  let stopped = false;
  let called = 0;
  const shown = (parts: readonly Part[]): Piece[] => {
    const list = parts.map((part, index): Piece => ({ ...part, tokens: index === 0 ? held : [], generated: true }));
    if (list.length > 0) held = [];
    called += list.reduce((sum, piece) => sum + piece.calls.length, 0);
    return list;
  };
  if (echo !== null && echo.ids.length === 0) yield { ...NOTHING, text: echo.text, tokens: [], generated: false };
  for await (const event of source) {
    if (event.type === "prompt") {
      if (echo !== null) yield promptPiece(echo, event.scores);
    } else if (event.type === "token") {
      if (stopped) continue;
      completionTokens++;
      held.push({ id: event.id, score: event.logprob ?? null });
      const step = assembly.push(event.id);
      yield* shown(partsOf(reading, step.text));
      if (step.stopped) {
        stopped = true;
        source.stop();
      }
    } else {
      const rest = stopped ? "" : assembly.end();
      yield* shown([...partsOf(reading, rest), ...lastPartsOf(reading)]);
      if (held.length > 0) yield* shown([NOTHING]);
      const reason = stopped ? "stop" : event.reason;
      return { reason, stop: assembly.stop, report: event.report, scratched: event.scratched, erased: event.erased, completionTokens, calls: called };
    }
  }
  throw new Error("an answer ended without an end event");
}

type Part = Pick<Piece, "thinking" | "text" | "calls">;

const NOTHING: Part = { thinking: "", text: "", calls: [] };

/** What more text makes certain, told apart. */
function partsOf({ thinking, calls }: AnswerReading, more: string): Part[] {
  const told = thinking === null ? { thinking: "", text: more } : thinking.push(more);
  const parts: Part[] = told.thinking === "" ? [] : [{ ...NOTHING, thinking: told.thinking }];
  if (calls !== null) return [...parts, ...calls.push(told.text).map((shown) => Object.assign({ thinking: "" }, shown))];
  return told.text === "" ? parts : [...parts, { ...NOTHING, text: told.text }];
}

/** What was held back when the answer ended. */
function lastPartsOf({ thinking, calls }: AnswerReading): Part[] {
  const told = thinking?.end() ?? { thinking: "", text: "" };
  const parts = [...partsOf({ thinking: null, calls } as AnswerReading, told.text), ...(calls?.end() ?? []).map((shown) => Object.assign({ thinking: "" }, shown))];
  return told.thinking === "" ? parts : [{ ...NOTHING, thinking: told.thinking }, ...parts];
}

function promptPiece(echo: EchoedPrompt, scores: readonly (TokenLogprob | null)[]): Piece {
  const tokens = Array.from(echo.ids, (id, index) => ({ id, score: scores[index] ?? null }));
  return { ...NOTHING, text: echo.text, tokens, generated: false };
}
