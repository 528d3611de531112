/** A chat message as dialects read it: OpenAI's shape, further fields allowed. */
export interface DialectMessage {
  role: string;
  content?: string | readonly { type: string; text?: string | undefined; thinking?: string | undefined }[] | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: readonly unknown[] | null | undefined;
  tool_call_id?: string | null | undefined;
  name?: string | null | undefined;
}

/** Directives that a dialect came to, and what it asked for that they do not say. */
export interface DialectReading<T> {
  value: T;
  /** Sentences, for the answer's warnings. */
  losses: string[];
}

/** The text of a message's content; parts that are no text say nothing. */
export function contentText({ content }: DialectMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text, thinking }) => text ?? thinking ?? "").join("");
}
