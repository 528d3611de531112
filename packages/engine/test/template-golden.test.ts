import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { type ChatMessage, ChatTemplate, type ChatTool, Tokenizer } from "../src/index.ts";
import { describeWithModel } from "./golden/models.ts";

interface Golden {
  chats: { messages: ChatMessage[]; tools?: ChatTool[]; add_generation_prompt: boolean }[];
  runs: { file: string; prompts: { prompt: string; ids: number[] }[] }[];
}

const golden = JSON.parse(gunzipSync(readFileSync(new URL("golden/prompts.json.gz", import.meta.url))).toString()) as Golden;

for (const run of golden.runs) {
  describeWithModel(run.file, `the chat template of ${run.file}`, (data) => {
    let tokenizer: Tokenizer | undefined;
    const make = () => new ChatTemplate(data().chatTemplate, (tokenizer ??= new Tokenizer(data())));

    test(`gives llama.cpp's text and ids for ${golden.chats.length} chats`, () => {
      const template = make();
      for (const [index, chat] of golden.chats.entries()) {
        const rendered = template.render({ messages: chat.messages, tools: chat.tools, addGenerationPrompt: chat.add_generation_prompt });
        const expected = run.prompts[index] as { prompt: string; ids: number[] };
        expect(rendered.text).toBe(expected.prompt);
        expect([...rendered.tokens]).toEqual(expected.ids);
      }
    });

    test("gives every token an owner, in order, and the header to the number of messages", () => {
      const template = make();
      for (const chat of golden.chats) {
        const { messages, tools } = chat;
        const { chat: log, header, tokens } = template.render({ messages, tools, addGenerationPrompt: chat.add_generation_prompt });
        expect(log.owners.length).toBe(tokens.length);
        expect([...log.owners]).toEqual([...log.owners].toSorted((left, right) => left - right));
        expect(new Set(log.owners)).toEqual(new Set([...messages.keys(), ...(chat.add_generation_prompt ? [messages.length] : [])]));
        expect(tokenizer?.decode(tokens.subarray(header))).toBe(chat.add_generation_prompt ? "<|im_start|>assistant\n" : "");
      }
    });

    test("a chat that goes on keeps the owners of its beginning", () => {
      const template = make();
      for (const chat of golden.chats.filter((_, index) => index % 4 === 0)) {
        const whole = template.render({ messages: chat.messages, tools: chat.tools, addGenerationPrompt: false });
        for (let count = 1; count < chat.messages.length; count += 1) {
          if (chat.messages[count]?.role === "tool") continue;
          const part = template.render({ messages: chat.messages.slice(0, count), tools: chat.tools, addGenerationPrompt: false });
          expect(whole.tokens.subarray(0, part.tokens.length)).toEqual(part.tokens);
          expect(whole.chat.owners.indexOf(count)).toBe(part.tokens.length);
        }
      }
    });
  });
}
