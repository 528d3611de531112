import { Bench } from "tinybench";
import { type Directive, fold, type Log, parseDirectives, parseText, printText } from "../src/index.ts";

const TOKENS = 1_000_000;
const EDITS = 1_000;

const plainLog = (length: number): Log => ({ tokens: new Int32Array(length), header: length, contextLength: 2 ** 31 - 1 });

/** Drops of 500 tokens, each followed by a reposition, evenly spread: an agent that prunes as it goes. */
function edits(count: number, length: number): Directive[] {
  const every = Math.floor(length / count);
  return parseDirectives(
    Array.from({ length: count / 2 }, (_, i) => {
      const at = { token: (2 * i + 2) * every };
      return [{ op: "drop", target: { tokens: [at.token - every, at.token - every + 500] }, at }, { op: "reposition", at }];
    }).flat(),
  );
}

/** A chat of 4,096 messages of 20 tokens, and 1,024 directives by message. */
function chat(): { log: Log; json: unknown[] } {
  const messages = 4_096;
  const owners = Int32Array.from({ length: messages * 20 }, (_, i) => Math.floor(i / 20));
  const log = { ...plainLog(owners.length), chat: { messages, owners } };
  const json = Array.from({ length: 1_024 }, (_, i) => ({ op: "drop", target: { messages: [4 * i] }, at: { message: 4 * i + 3 } }));
  return { log, json };
}

/** Splices of 200 tokens, each with a stub of three, some in each mode. */
function splices(count: number, length: number, mode: string): Directive[] {
  const every = Math.floor(length / count);
  return parseDirectives(
    Array.from({ length: count }, (_, i) => {
      const at = { token: (i + 1) * every };
      return { op: "splice", target: { tokens: [at.token - every, at.token - every + 200] }, with: [1, 2, 3], mode, at };
    }),
  );
}

const long = plainLog(TOKENS);
const amortized = splices(EDITS, TOKENS, "amortize");
const refreshed = splices(EDITS, TOKENS, "refresh");
const forgotten = splices(EDITS, TOKENS, "forget");
const many = edits(EDITS, TOKENS);
const few = edits(10, TOKENS);
const { log, json } = chat();
const text = printText(parseDirectives(json));
const before = fold(long, many.slice(0, -2));

const bench = new Bench({ time: 1_000, warmupTime: 200 });
bench
  .add(`fold 1M tokens with ${EDITS} directives`, () => {
    fold(long, many);
  })
  .add("fold 1M tokens with 10 directives", () => {
    fold(long, few);
  })
  .add(`fold 1M tokens with ${EDITS} splices`, () => {
    fold(long, amortized);
  })
  .add(`fold 1M tokens with ${EDITS} refreshes`, () => {
    fold(long, refreshed);
  })
  .add(`fold 1M tokens with ${EDITS} forgets`, () => {
    fold(long, forgotten);
  })
  .add("fold one more turn of 1M tokens", () => {
    fold(long, many, { previous: before });
  })
  .add("parse 1,024 lines of text", () => {
    parseText(text);
  })
  .add("parse 1,024 directives", () => {
    parseDirectives(json);
  })
  .add("parse and fold 1,024 directives on 4,096 messages", () => {
    fold(log, parseDirectives(json));
  });
await bench.run();
console.table(bench.table());
