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

/** Places looked at between two chances to pause. */
const PLACES_PER_PAUSE = 4_096;

interface Candidate {
  match: SpecialMatch;
  order: number;
}

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
   * one wins, wherever it begins. Null where a caller may pause.
   */
  *find(text: string, accepts: SpecialFilter): Generator<SpecialMatch | null> {
    // Candidates that overlap, directly or through others: the choice among them concerns no one else.
    let cluster: Candidate[] = [];
    let end = 0;
    let looked = 0;
    for (const at of this.#places(text)) {
      looked += 1;
      if (looked % PLACES_PER_PAUSE === 0) yield null;
      if (at >= end && cluster.length > 0) {
        yield* chosen(cluster);
        cluster = [];
      }
      for (const order of this.#ordersAt(text, at)) {
        const token = this.tokens[order] as SpecialToken;
        const match = { start: at, end: at + token.text.length, token };
        if (!accepts(match)) continue;
        cluster.push({ match, order });
        end = Math.max(end, match.end);
      }
    }
    yield* chosen(cluster);
  }

  /** Every place where a special token may begin, rising. */
  *#places(text: string): Generator<number> {
    const next = this.#firstUnits.map((first) => text.indexOf(first));
    for (;;) {
      let nearest = -1;
      for (const [index, at] of next.entries()) if (at >= 0 && (nearest < 0 || at < (next[nearest] as number))) nearest = index;
      if (nearest < 0) return;
      const at = next[nearest] as number;
      yield at;
      next[nearest] = text.indexOf(this.#firstUnits[nearest] as string, at + 1);
    }
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

/** The longest first, among equals the first; what overlaps one that was chosen is none. */
function chosen(candidates: readonly Candidate[]): SpecialMatch[] {
  if (candidates.length <= 1) return candidates.map(({ match }) => match);
  const from = (candidates[0] as Candidate).match.start;
  const taken = new Uint8Array(candidates.reduce((end, { match }) => Math.max(end, match.end), from) - from);
  const matches: SpecialMatch[] = [];
  for (const { match } of candidates.toSorted((left, right) => left.order - right.order || left.match.start - right.match.start)) {
    if (taken.subarray(match.start - from, match.end - from).includes(1)) continue;
    taken.fill(1, match.start - from, match.end - from);
    matches.push(match);
  }
  return matches.toSorted((left, right) => left.start - right.start);
}
