import { expect, test } from "vitest";
import { Wire } from "./kit/http.ts";
import { describeWithModel } from "./real-models.ts";
import { openServer, type TestServer } from "./servers.ts";

const QUESTION = { role: "user", content: "Write one short sentence about the sea." };
const GENERATED = 24;

/** ChatML with reasoning between marks. */
const templateOf = (open: string, close: string) =>
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}" +
  `{% if message.reasoning_content %}{{ '${open}' + message.reasoning_content + '${close}' }}{% endif %}` +
  "{{ message.content + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

async function withServer<T>(path: string, chatTemplate: string, use: (wire: Wire, server: TestServer) => Promise<T>): Promise<T> {
  const server = await openServer(path, { chatTemplate });
  try {
    return await use(new Wire(server.address), server);
  } finally {
    await server.close();
  }
}

/**
 * SmolLM2 does not reason between marks. So the template takes two words for its marks that the model will say: what it says between
 * them is its thought, and everything is real but its meaning.
 */
describeWithModel("smollm2-135m", "reasoning that SmolLM2-135M generates", (path) => {
  test("is out of sight from the next turn on, without being computed again, bit for bit", async () => {
    const ask = { messages: [QUESTION], max_tokens: GENERATED };
    const said = await withServer(path, templateOf("<think>", "</think>"), (wire) => wire.answer(ask, "any"));
    const words = said.text.split(/(?=\s)/);
    const [open, close] = [words[0]!, words[4]!];
    expect(said.text.indexOf(close)).toBe(words.slice(0, 4).join("").length);
    const reasoning = words.slice(1, 4).join("");
    const content = words.slice(5).join("");
    const next = [QUESTION, { role: "assistant", reasoning_content: reasoning, content }, { role: "user", content: "Say it again." }];

    await withServer(path, templateOf(open, close), async (wire) => {
      const scratch = { cache: { scratch: "thinking", report: true } };
      const first = await wire.answer({ ...ask, ...scratch }, "any");
      expect(first.ids).toEqual(said.ids);
      const { tokens: thought } = await wire.post<{ tokens: number[] }>("/tokenize", { prompt: reasoning, add_special_tokens: false }, "any");
      expect(first.cache).toMatchObject({ scratched_tokens: thought.length });
      const { tokens } = await wire.post<{ tokens: number[] }>("/tokenize", { messages: next }, "any");
      // The rendering of the turn begins with what was prompted and generated, token for token.
      const known = first.cache.prompt_tokens + GENERATED - 1;
      expect(tokens.slice(0, known)).toEqual([...tokens.slice(0, first.cache.prompt_tokens), ...said.ids.slice(0, -1)]);
      const body = { messages: next, max_tokens: 6, ...scratch };
      const second = await wire.answer(body, "any", true);
      expect(second.cache.directives).toMatchObject([{ op: "scratch", source: "scratch", status: "applied", hidden: thought.length, at_token: known + 1 }]);
      expect(second.cache).toMatchObject({ computed_tokens: tokens.length - known, visible_tokens: tokens.length - thought.length, skipped_tokens: 0 });
      const cold = await withServer(path, templateOf(open, close), (fresh) => fresh.answer(body, "any"));
      expect({ ids: second.ids, logprobs: second.logprobs }).toEqual({ ids: cold.ids, logprobs: cold.logprobs });
      expect((await wire.answer({ messages: next, max_tokens: 6 }, "any")).logprobs).not.toEqual(second.logprobs);
    });
  }, 60_000);
});
