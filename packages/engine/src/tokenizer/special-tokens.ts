import { TOKEN_CONTROL, TOKEN_UNKNOWN, TOKEN_USER_DEFINED } from "./vocabulary.ts";

/** A token whose text stands for itself and is never made by merging. */
export interface SpecialToken {
  id: number;
  text: string;
  /** Control tokens steer the model (turn ends, roles). The others are mark-up that a model's makers added, such as `<tool_call>`. */
  control: boolean;
}

/** A special token found at [start, end) of a text, in UTF-16 units. */
export interface SpecialMatch {
  start: number;
  end: number;
  token: SpecialToken;
}

/** Says which of the special tokens that a text spells are meant. */
export type SpecialFilter = (match: SpecialMatch) => boolean;

interface TrieNode {
  children: Map<number, TrieNode>;
  /** Place in the order of precedence of the token that ends here. */
  order: number;
}

/** Finds the special tokens in texts, in time that does not grow with their number. */
export class SpecialTokens {
  /** In order of precedence: the longest first, in bytes, as llama.cpp cuts them out. */
  readonly tokens: readonly SpecialToken[];
  readonly #root: TrieNode = { children: new Map(), order: -1 };
  readonly #firstUnits: readonly string[];

  constructor(tokens: readonly string[], types: Int32Array) {
    const special: SpecialToken[] = [];
    for (const [id, type] of types.entries()) {
      const text = tokens[id] as string;
      const isSpecial = type === TOKEN_CONTROL || type === TOKEN_UNKNOWN || type === TOKEN_USER_DEFINED;
      if (isSpecial && text !== "") special.push({ id, text, control: type !== TOKEN_USER_DEFINED });
    }
    const bytes = (token: SpecialToken) => Buffer.byteLength(token.text);
    this.tokens = special.toSorted((left, right) => bytes(right) - bytes(left) || left.id - right.id);
    for (const [order, token] of this.tokens.entries()) this.#insert(token.text, order);
    this.#firstUnits = [...new Set(this.tokens.map((token) => token.text.charAt(0)))];
  }

  /**
   * The special tokens that a text spells and `accepts` takes, in order of place and not overlapping. Where two overlap the longer
   * one wins, wherever it begins.
   */
  find(text: string, accepts: SpecialFilter): SpecialMatch[] {
    const found: { match: SpecialMatch; order: number }[] = [];
    for (const first of this.#firstUnits) {
      for (let at = text.indexOf(first); at >= 0; at = text.indexOf(first, at + 1)) {
        for (const order of this.#ordersAt(text, at)) {
          const token = this.tokens[order] as SpecialToken;
          const match = { start: at, end: at + token.text.length, token };
          if (accepts(match)) found.push({ match, order });
        }
      }
    }
    found.sort((left, right) => left.order - right.order || left.match.start - right.match.start);
    const taken = new Uint8Array(found.length === 0 ? 0 : text.length);
    const matches: SpecialMatch[] = [];
    for (const { match } of found) {
      if (taken.subarray(match.start, match.end).includes(1)) continue;
      taken.fill(1, match.start, match.end);
      matches.push(match);
    }
    return matches.toSorted((left, right) => left.start - right.start);
  }

  #insert(text: string, order: number): void {
    let node = this.#root;
    for (let unit = 0; unit < text.length; unit += 1) {
      const code = text.charCodeAt(unit);
      let child = node.children.get(code);
      if (child === undefined) {
        child = { children: new Map(), order: -1 };
        node.children.set(code, child);
      }
      node = child;
    }
    // Of two tokens with one text the first in order counts: the text never reaches the second.
    if (node.order < 0) node.order = order;
  }

  #ordersAt(text: string, at: number): number[] {
    const orders: number[] = [];
    let node: TrieNode | undefined = this.#root;
    for (let unit = at; node !== undefined; unit += 1) {
      if (node.order >= 0) orders.push(node.order);
      node = unit < text.length ? node.children.get(text.charCodeAt(unit)) : undefined;
    }
    return orders;
  }
}
