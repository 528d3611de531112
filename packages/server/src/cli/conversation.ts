import { parseText, type Directive, type Registry } from "@palimpsest/directives";

/** A chat message as this client sends it. */
export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** What the server says of the running conversation. */
export interface MessageState {
  index: number;
  role: string;
  tokens: number;
  /** Tokens of the message that a directive hides. */
  hidden: number;
  beginning: string;
}

interface PlanAnswer {
  directives: {
    op: string;
    status: string;
    reason?: string;
    hidden?: number;
    inserted?: number;
    shifted?: number;
    recomputed?: number;
    ranges?: [number, number][];
    cost?: PlanCost;
    text_edit?: PlanCost;
  }[];
  visible_tokens: number;
  prompt_tokens: number;
  computed_tokens: number;
  cost: { seconds: number | null; text_edit_tokens: number; text_edit: { seconds: number | null } };
}

interface PlanCost {
  tokens: number;
  seconds?: number;
}

const BEGINNING_LENGTH = 48;

/**
 * A conversation that edits itself: messages, and the directives that were given so far, each with the place it was given at. Every
 * request carries all of both; the server holds no session.
 */
export class Conversation {
  readonly messages: Message[];
  /** The verbs that may be written. */
  readonly registry: Registry;
  directives: Directive[] = [];

  constructor(system: string | undefined, registry: Registry) {
    this.registry = registry;
    this.messages = system === undefined ? [] : [{ role: "system", content: system }];
  }

  body(): object {
    return { messages: this.messages, ...(this.directives.length > 0 ? { directives: this.directives } : {}), cache: { report: true } };
  }

  /**
   * A directive in the text form, at the end of the conversation so far unless it says where; `drop 3` is short for `drop messages 3`.
   * Throws a `DirectiveError` that says what was expected.
   */
  directive(text: string): Directive {
    const [directive] = parseText(text.replace(/^(\w+)\s+(?=\d)/, "$1 messages "), { registry: this.registry });
    if (directive === undefined) throw new Error("expected a directive, such as drop 3 or reposition");
    if (this.messages.length === 0) throw new Error("there is no message yet");
    return { at: { message: this.messages.length - 1 }, ...directive };
  }

  /** Each message with its tokens, by the owners that the server gives and the ranges that it would hide. */
  states(owners: readonly number[], plan: PlanAnswer): MessageState[] {
    const hidden = new Set<number>();
    for (const [start, end] of plan.directives.flatMap((directive) => directive.ranges ?? [])) {
      for (let token = start; token < end; token++) hidden.add(token);
    }
    const states = this.messages.map(({ role, content }, index) => ({ index, role, tokens: 0, hidden: 0, beginning: beginning(content) }));
    for (const [token, owner] of owners.entries()) {
      const state = states[owner];
      if (state === undefined) continue;
      state.tokens++;
      if (hidden.has(token)) state.hidden++;
    }
    return states;
  }
}

export type { PlanAnswer };

/** One line for each directive of a plan, and what the next answer would compute, each beside the same by an edit of the text. */
export function planText(plan: PlanAnswer): string {
  const rows = plan.directives.map(({ op, status, reason, hidden, inserted, shifted, recomputed, cost, text_edit: edit }) => {
    const counts = { hides: hidden, inserts: inserted, moves: shifted, refreshes: recomputed };
    const effect = Object.entries(counts).flatMap(([verb, count]) => (count ? [`${verb} ${count}`] : [])).join(", ");
    const beside = edit !== undefined && edit.tokens > 0 ? `; costs ${cost?.tokens ?? 0}${duration(cost?.seconds)}, as edited text ${edit.tokens}${duration(edit.seconds)}` : "";
    return `${op}: ${status}${reason === undefined ? "" : ` (${reason})`}${effect === "" ? "" : `, ${effect} tokens`}${beside}`;
  });
  const { seconds, text_edit_tokens: instead, text_edit: edit } = plan.cost;
  const beside = instead !== plan.computed_tokens ? `, with edited text ${instead}${duration(edit.seconds)}` : "";
  return [...rows, `${plan.visible_tokens} of ${plan.prompt_tokens} tokens visible; the next answer computes ${plan.computed_tokens}${duration(seconds)}${beside}`].join("\n");
}

/** Nothing where no speed was measured. */
function duration(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "" : ` (${seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`})`;
}

export function stateText(states: readonly MessageState[]): string {
  return states
    .map(({ index, role, tokens, hidden, beginning: text }) => {
      const state = hidden === 0 ? "" : hidden === tokens ? " dropped" : ` ${hidden} dropped`;
      return `${String(index).padStart(3)} ${role.padEnd(9)} ${String(tokens).padStart(5)} tokens${state.padEnd(9)} ${text}`;
    })
    .join("\n");
}

function beginning(content: string): string {
  const text = content.replaceAll(/\s+/g, " ").trim();
  return text.length <= BEGINNING_LENGTH ? text : `${text.slice(0, BEGINNING_LENGTH - 1)}…`;
}
