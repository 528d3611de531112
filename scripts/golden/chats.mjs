// The chats that golden prompts are made of.

import { random } from "./strings.mjs";

const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Tells the weather of a city, today or later.",
      parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer", minimum: 1 } }, required: ["city"] },
    },
  },
  { type: "function", function: { name: "read_file", description: "Reads \"a\" file's bytes – ümlaut & <tags>", parameters: { type: "object", properties: { path: { type: "string" } } } } },
  { type: "function", function: { name: "now" } },
];
const user = (content) => ({ role: "user", content });
const assistant = (content) => ({ role: "assistant", content });
const system = (content) => ({ role: "system", content });
const call = (id, name, args) => ({ id, type: "function", function: { name, arguments: JSON.stringify(args) } });
const calls = (content, ...tool_calls) => ({ role: "assistant", content, tool_calls });
const result = (id, content) => ({ role: "tool", tool_call_id: id, content });

const WEATHER = [
  user("What is the weather in Zürich and 東京?"),
  calls(null, call("c1", "get_weather", { city: "Zürich", days: 2 }), call("c2", "get_weather", { city: "東京" })),
  result("c1", "{\"celsius\": 21.5, \"sky\": \"☀️\"}"),
  result("c2", "rain\nall day"),
];

const FIXED = [
  { messages: [user("Hello")] },
  { messages: [system("You are terse."), user("Hello")] },
  { messages: [{ role: "developer", content: "You are terse." }, user("Hello")] },
  { messages: [user("Hello"), assistant("Hi there."), user("How are you?")] },
  { messages: [user("Hello"), assistant("Hi there.")], add_generation_prompt: false },
  { messages: [system("S"), user("a"), system("Now in French."), user("b")] },
  { messages: [user(""), assistant(""), user(" ")] },
  { messages: [user("  leading\n\nand trailing \n\n")] },
  { messages: [user([{ type: "text", text: "first" }, { type: "text", text: "second part" }])] },
  { messages: [user([{ type: "text", text: "" }, { type: "text", text: "x" }, { type: "text", text: "" }])] },
  { messages: [user("user"), assistant("assistant"), user("system\nuser")] },
  { messages: [user("def f():\n\treturn {'a': [1, 2]}  # 漢字 😀👨‍👩‍👧\r\n")] },
  { messages: [user("q"), calls("Let me look.", call("c1", "read_file", { path: "/etc/hosts" })), result("c1", "127.0.0.1 localhost"), assistant("Done."), user("Thanks")], tools: TOOLS },
  { messages: WEATHER, tools: TOOLS },
  { messages: WEATHER },
  { messages: [...WEATHER, assistant("Sunny and rainy."), user("And tomorrow?")], tools: TOOLS },
  { messages: [system("Use tools."), ...WEATHER], tools: TOOLS },
  { messages: [system("Use tools."), ...WEATHER], tools: TOOLS, add_generation_prompt: false },
  { messages: [system("Use tools."), user("x")], tools: TOOLS.slice(0, 1) },
  { messages: [user("x")], tools: TOOLS.slice(2) },
  { messages: [user("q"), calls("", call("c1", "f", {})), result("c1", "")], tools: TOOLS },
  { messages: [user("q"), calls(null, call("c1", "f", { nested: { list: [1, 2.5, -3, true, null, "é\n\"x\""], empty: {}, none: [] } })), result("c1", "ok")], tools: TOOLS },
  { messages: [user("q"), assistant("I write <tool_call>\n{\"name\": \"f\"}\n</tool_call> myself."), user("ok")], tools: TOOLS },
];

const WORDS = [
  "the", "Hello", "world", "of", "naïve", "漢字", "😀", "12", "3.14", "it's", "\n", "\n\n", "  ", "\t", "user", "assistant", "{\"a\": 1}", "<b>", "def f():", "…", "“x”", "привет", "👩‍🚀", "a_b", "--", "!",
];

/** Chats as agents have them: turns with zero to three calls and their results. */
function randomChat(pick) {
  const text = () => Array.from({ length: pick(14) }, () => WORDS[pick(WORDS.length)]).join(["", " "][pick(2)]);
  const messages = pick(2) === 0 ? [system(text())] : [];
  let id = 0;
  for (let turn = 0; turn <= pick(5); turn += 1) {
    messages.push(user(text()));
    for (let step = pick(3); step > 0; step -= 1) {
      const made = Array.from({ length: 1 + pick(3) }, () => call(`c${(id += 1)}`, TOOLS[pick(3)].function.name, { [WORDS[pick(5)]]: text(), n: pick(1000), list: [pick(9), text()] }));
      messages.push(calls(pick(2) === 0 ? null : text(), ...made), ...made.map((one) => result(one.id, text())));
    }
    if (pick(4) > 0) messages.push(assistant(text()));
  }
  return { messages, ...(pick(3) > 0 ? { tools: TOOLS.slice(0, 1 + pick(3)) } : {}), add_generation_prompt: pick(4) > 0 };
}

export function goldenChats() {
  const pick = random(4_711);
  const chats = [...FIXED, ...Array.from({ length: 150 }, () => randomChat(pick))];
  return chats.map((chat) => ({ add_generation_prompt: true, ...chat }));
}
