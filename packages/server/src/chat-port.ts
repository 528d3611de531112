import type { Tokenizer } from "@palimpsest/engine";
import type { ChatPort, ChatRequest, RenderedChat } from "./service.ts";

export function chatPort(tokenizer: Tokenizer, _template: string): ChatPort {
  return {
    render: ({ messages, addGenerationPrompt }: ChatRequest): RenderedChat => {
      const tokens: number[] = [];
      const owners: number[] = [];
      const add = (text: string, special: boolean, owner: number) => {
        for (const id of tokenizer.encode(text, { special })) {
          tokens.push(id);
          owners.push(owner);
        }
      };
      messages.forEach((message, index) => {
        add("<|im_start|>", true, index);
        add(`${message.role}\n`, false, index);
        add(message.content, false, index);
        add("<|im_end|>\n", true, index);
      });
      const header = tokens.length;
      if (addGenerationPrompt) add("<|im_start|>assistant\n", true, messages.length);
      return { tokens: Int32Array.from(tokens), owners: Int32Array.from(owners), header };
    },
  };
}
