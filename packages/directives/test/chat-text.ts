import type { ChatLog, Log, Part, Range } from "../src/types.ts";
import type { DialectMessage } from "../src/index.ts";

/**
 * A chat rendered one token a character, so that a test can see what is visible: `<role>` reasoning in braces, content, `;`.
 * Parts and texts are found as the engine finds them.
 */
export function renderChat(messages: readonly DialectMessage[], header = "<assistant>"): { log: Log; text: string; read(tokens: Iterable<number>): string } {
  let text = "";
  const owners: number[] = [];
  const parts: Map<Part, Range>[] = [];
  messages.forEach((message, index) => {
    const own = new Map<Part, Range>();
    const add = (piece: string, part?: Part) => {
      if (part && piece !== "") own.set(part, [text.length, text.length + piece.length]);
      text += piece;
    };
    add(`<${message.role}>`);
    if (message.reasoning_content) {
      add("{");
      add(message.reasoning_content, "thinking");
      add("}");
    }
    add(typeof message.content === "string" ? message.content : "", message.role === "tool" ? "tool_result" : "content");
    if (message.tool_calls) add(JSON.stringify(message.tool_calls), "tool_calls");
    add(";");
    while (owners.length < text.length) owners.push(index);
    parts.push(own);
  });
  const end = text.length;
  text += header;
  while (owners.length < text.length) owners.push(messages.length);
  const chat: ChatLog = {
    messages: messages.length,
    owners: Int32Array.from(owners),
    roles: messages.map(({ role }) => role),
    part: (message, part) => (parts[message]!.has(part) ? [parts[message]!.get(part)!] : []),
    text: (message, exact, occurrence, part) => {
      const ranges = [...parts[message]!].filter(([name]) => part === undefined || name === part).map(([, range]) => range);
      return find(text, ranges, exact, occurrence);
    },
  };
  const log: Log = { tokens: Int32Array.from(codes(text)), header: end, contextLength: 100_000, chat, tokenize: codes };
  return { log, text, read: (tokens) => Array.from(tokens, (code) => String.fromCharCode(code)).join("") };
}

function codes(text: string): number[] {
  return Array.from(text, (character) => character.charCodeAt(0));
}

function find(text: string, ranges: readonly Range[], exact: string, occurrence: number): Range[] | null {
  let left = occurrence;
  for (const [start, end] of ranges) {
    for (let at = text.indexOf(exact, start); at >= 0 && at + exact.length <= end; at = text.indexOf(exact, at + 1)) {
      if (--left === 0) return [[at, at + exact.length]];
    }
  }
  return null;
}
