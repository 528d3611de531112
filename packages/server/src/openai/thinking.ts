import type { Log } from "@palimpsest/directives";
import type { Service } from "../service.ts";

/** The marks around reasoning, as the model's template has them. */
interface Marks {
  open: string;
  close: string;
}

/** Text of an answer, told apart. */
export interface Told {
  thinking: string;
  text: string;
}

/**
 * Tells the reasoning that an answer begins with from what it says: all between the model's marks, without the white space around it. An
 * answer that does not begin with the mark has none. What `push` and `end` give is the same for every way of cutting the answer.
 */
export class ThinkingReader {
  readonly #marks: Marks;
  #state: "before" | "first" | "inside" | "behind" | "text" = "before";
  /** What may still be a mark, or white space around one. */
  #held = "";

  /** @param isOpened whether the generation header ends with the opening mark */
  constructor(marks: Marks, isOpened: boolean) {
    this.#marks = marks;
    if (isOpened) this.#state = "first";
  }

  push(text: string): Told {
    this.#held += text;
    const told: Told = { thinking: "", text: "" };
    if (this.#state === "before") this.#open(told);
    if (this.#state === "first") this.#begin();
    if (this.#state === "inside") this.#think(told);
    if (this.#state === "behind") this.#begin();
    if (this.#state === "text") told.text += this.#take(this.#held.length);
    return told;
  }

  /** The answer has ended: what was held is reasoning where that did not end, text where it did not begin. */
  end(): Told {
    const rest = this.#take(this.#held.length);
    if (this.#state === "inside") return { thinking: rest, text: "" };
    return { thinking: "", text: this.#state === "before" ? rest : "" };
  }

  #open(told: Told): void {
    const { open } = this.#marks;
    const begun = this.#held.trimStart();
    if (begun.startsWith(open)) {
      this.#held = begun.slice(open.length);
      this.#state = "first";
    } else if (!open.startsWith(begun)) {
      told.text = this.#take(this.#held.length);
      this.#state = "text";
    }
  }

  /** White space that reasoning, or the text behind it, begins with belongs to the marks. */
  #begin(): void {
    this.#held = this.#held.trimStart();
    if (this.#held !== "") this.#state = this.#state === "first" ? "inside" : "text";
  }

  #think(told: Told): void {
    const { close } = this.#marks;
    const end = this.#held.indexOf(close);
    if (end >= 0) {
      told.thinking = this.#held.slice(0, end).trimEnd();
      this.#held = this.#held.slice(end + close.length);
      this.#state = "behind";
      return;
    }
    let mark = Math.min(close.length - 1, this.#held.length);
    while (!this.#held.endsWith(close.slice(0, mark))) mark--;
    told.thinking = this.#take(this.#held.slice(0, this.#held.length - mark).trimEnd().length);
  }

  #take(length: number): string {
    const taken = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return taken;
  }
}

/** For a model whose template renders reasoning. */
export function thinkingReader({ chat, tokenizer }: Service, { tokens, header }: Log): ThinkingReader {
  const marks = chat!.capabilities.thinking;
  return new ThinkingReader(marks, tokenizer.decode(tokens.subarray(header)).trimEnd().endsWith(marks.open));
}
