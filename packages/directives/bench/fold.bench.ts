import { Bench } from "tinybench";
import { type Directive, fold, type Log, parseDirectives } from "../src/index.ts";

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

const long = plainLog(TOKENS);
const many = edits(EDITS, TOKENS);
const few = edits(10, TOKENS);
const { log, json } = chat();

const bench = new Bench({ time: 1_000, warmupTime: 200 });
bench
  .add(`fold 1M tokens with ${EDITS} directives`, () => {
    fold(long, many);
  })
  .add("fold 1M tokens with 10 directives", () => {
    fold(long, few);
  })
  .add("parse 1,024 directives", () => {
    parseDirectives(json);
  })
  .add("parse and fold 1,024 directives on 4,096 messages", () => {
    fold(log, parseDirectives(json));
  });
await bench.run();
console.table(bench.table());
