import { describe, expect, test } from "vitest";
import { DirectiveError, fold, writeTextEdits } from "../src/index.ts";
import type { Birth, Directive, Fold, Log } from "../src/types.ts";
import { chatLog, tokenLog } from "./random-logs.ts";

/** The rules of directives, one by one, on logs whose tokens are 100, 101, 102, … */

function splice(target: [number, number], tokens: number[], at: number, more: Record<string, unknown> = {}): Directive {
  return { op: "splice", target: { tokens: target }, with: tokens, at: { token: at }, ...more };
}

function drop(target: [number, number], at: number): Directive {
  return { op: "drop", target: { tokens: target }, at: { token: at } };
}

function reposition(at: number): Directive {
  return { op: "reposition", at: { token: at } };
}

/** Visible tokens in the end, each with its position. */
function seen(folded: Fold): string {
  const open = folded.births[folded.births.length - 1]!;
  const spans = [...open.view, { cell: open.cell, length: open.length, birth: open.position, shift: 0 }];
  return spans.flatMap(({ cell, length, birth, shift }) => Array.from({ length }, (_, i) => `${folded.tokens[cell + i]}@${birth + shift + i}`)).join(" ");
}

/** Visible text in the end, without positions. */
function text(folded: Fold): number[] {
  return [...writeTextEdits(folded).value.tokens];
}

function refusal(log: Log, directives: Directive[]): DirectiveError {
  try {
    fold(log, directives);
  } catch (error) {
    if (error instanceof DirectiveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function forget(target: [number, number], tokens: number[], at: number): Directive {
  return splice(target, tokens, at, { mode: "forget" });
}

/** Where the boundary of a drop stands in the edited log when [3, 6) is forgotten for two tokens. */
function boundaryInEdited(boundary: number): number {
  return fold(tokenLog(10), [forget([3, 6], [900, 901], 9), drop([0, 1], boundary)]).events[0]!.at;
}

/** Whether a drop takes the replacement of a forget of [4, 6) at boundary 8 along. */
function covered(boundary: number, target: [number, number]): boolean {
  return !text(fold(tokenLog(12), [forget([4, 6], [800], 8), drop(target, boundary)])).includes(800);
}

/** Whether the replacement of a splice stands when [4, 7) is forgotten at boundary 8. */
function stands(boundary: number, target: [number, number]): boolean {
  return text(fold(tokenLog(12), [forget([4, 7], [], 8), splice(target, [900], boundary)])).includes(900);
}

/** System, user, then turns of assistant, tool, user. */
function chat(turns: number): Log {
  return chatLog([3, 4, ...Array.from({ length: turns }, () => [5, 6, 2]).flat()], 2);
}

function tokensOf({ tokens }: Fold, births: readonly Birth[]): number[] {
  const all: number[] = [];
  for (const { cell, length } of births) all.push(...tokens.subarray(cell, cell + length));
  return all;
}

describe("positions", () => {
  test("a drop moves nothing", () => {
    expect(seen(fold(tokenLog(6), [drop([1, 3], 4)]))).toBe("100@0 103@3 104@4 105@5");
  });

  test("a reposition gives the visible cells 0…n−1 and the counter n", () => {
    const folded = fold(tokenLog(6), [drop([1, 3], 4), reposition(4)]);
    expect(seen(folded)).toBe("100@0 103@1 104@2 105@3");
    expect(folded.nextPosition).toBe(4);
  });

  test("a splice shifts what follows by len(with) − (p_end − p_start), without earlier edits by |R| − |S|", () => {
    const folded = fold(tokenLog(8), [splice([2, 5], [900], 6)]);
    expect(folded.outcomes[0]).toMatchObject({ hidden: 3, inserted: 1, shifted: 1, delta: -2 });
    expect(seen(folded)).toBe("100@0 101@1 900@2 105@3 106@4 107@5");
  });

  test("a splice over a gap that a drop left closes it where the target reaches over it", () => {
    expect(seen(fold(tokenLog(8), [drop([2, 4], 5), splice([1, 5], [900], 6)]))).toBe("100@0 900@1 105@2 106@3 107@4");
  });

  test("p_start is the place of the first visible cell at or behind s: a hidden beginning takes no position", () => {
    expect(seen(fold(tokenLog(8), [drop([2, 4], 5), splice([2, 5], [900], 6)]))).toBe("100@0 101@1 900@4 105@5 106@6 107@7");
  });

  test("positions are read before the drops of the boundary: a drop inside the target leaves no gap, one beside it does", () => {
    expect(seen(fold(tokenLog(8), [drop([2, 4], 6), splice([1, 5], [900], 6)]))).toBe("100@0 900@1 105@2 106@3 107@4");
    expect(seen(fold(tokenLog(8), [drop([0, 1], 6), splice([1, 5], [900], 6)]))).toBe("900@1 105@2 106@3 107@4");
  });

  test("p_end is the counter where nothing stands behind the target", () => {
    const folded = fold(tokenLog(6), [splice([4, 6], [900, 901, 902], 6)]);
    expect(seen(folded)).toBe("100@0 101@1 102@2 103@3 900@4 901@5 902@6");
    expect(folded.nextPosition).toBe(7);
  });

  test("replacement cells see only what is visible before their place", () => {
    const { births } = fold(tokenLog(8), [drop([0, 1], 6), splice([2, 5], [900], 6)]);
    expect(births[1]).toMatchObject({ kind: "inserted", position: 2, view: [{ cell: 1, length: 1, birth: 1, shift: 0 }] });
  });

  test("every intermediate position must lie below the context, though a reposition of the boundary would bring it back", () => {
    const directives = [drop([0, 6], 8), splice([7, 7], [900, 901], 8), reposition(8)];
    expect(refusal(tokenLog(8, 9), directives)).toMatchObject({ code: "context_length_exceeded", param: "directives[1].with" });
    expect(fold(tokenLog(8, 10), directives).nextPosition).toBe(4);
  });
});

describe("order at one boundary", () => {
  test("drops come first, then splices from left to right, then refreshes, then the reposition, wherever they stand in the array", () => {
    const directives = [reposition(8), splice([5, 6], [901], 8, { mode: "refresh", refresh_tokens: 1 }), splice([2, 3], [900], 8), drop([0, 2], 8)];
    const folded = fold(tokenLog(8), directives);
    expect(seen(folded)).toBe("900@0 103@1 104@2 901@3 106@4 107@5");
    expect(folded.births.map(({ kind, position, length }) => [kind, position, length])).toEqual([
      ["log", 0, 8],
      ["inserted", 2, 1],
      ["inserted", 5, 1],
      ["recomputed", 6, 1],
      ["log", 6, 0],
    ]);
  });

  test("splices of one boundary may neither overlap nor start at the same place, of different boundaries they may", () => {
    const log = tokenLog(10);
    expect(refusal(log, [splice([1, 4], [], 8), splice([3, 5], [], 8)])).toMatchObject({ code: "target_overlap", param: "directives[1].target" });
    expect(refusal(log, [splice([3, 3], [900], 8), splice([3, 5], [], 8)])).toMatchObject({ code: "target_overlap", param: "directives[1].target" });
    expect(refusal(log, [splice([3, 5], [], 8, { mode: "forget" }), splice([4, 4], [900], 8)])).toMatchObject({ code: "target_overlap" });
    expect(refusal(log, [splice([3, 5], [], 8), splice([0, 1], [], 8), splice([3, 4], [], 8)]).message).toContain("directives[0]");
    expect(text(fold(log, [splice([1, 3], [900], 8), splice([3, 5], [901], 8), splice([5, 5], [902], 8)]))).toEqual([100, 900, 901, 902, 105, 106, 107, 108, 109]);
    expect(text(fold(log, [splice([1, 4], [900], 7), splice([3, 6], [901], 8)]))).toEqual([100, 900, 901, 106, 107, 108, 109]);
  });
});

describe("targets", () => {
  test("a splice target must be one contiguous range", () => {
    const log = chatLog([2, 3, 4, 5]);
    expect(refusal(log, [{ op: "splice", target: { messages: [0, 2] }, with: [] }])).toMatchObject({ code: "target_invalid", param: "directives[0].target" });
    expect(fold(log, [{ op: "splice", target: { messages: [2, 1] }, with: [] }]).outcomes[0]).toMatchObject({ hidden: 7, ranges: [[2, 9]] });
  });

  test("a part or text without a whole token has no effect; a text that does not occur is refused", () => {
    const base = chatLog([4, 4]);
    const log: Log = { ...base, chat: { ...base.chat!, part: () => [], text: (_message, exact) => (exact === "here" ? [] : null) } };
    const [part, found] = fold(log, [
      { op: "drop", target: { messages: [0], part: "thinking" } },
      { op: "splice", target: { text: { message: 1, exact: "here" } }, with: [] },
    ]).outcomes;
    expect(part).toMatchObject({ status: "no_effect", reason: "no_whole_token" });
    expect(found).toMatchObject({ status: "no_effect", reason: "no_whole_token" });
    expect(refusal(log, [{ op: "drop", target: { text: { message: 1, exact: "gone", occurrence: 2 } } }])).toMatchObject({ param: "directives[0].target.text" });
  });

  test("an empty splice target inserts, with an empty replacement it is refused", () => {
    expect(text(fold(tokenLog(4), [splice([2, 2], [900, 901], 3)]))).toEqual([100, 101, 900, 901, 102, 103]);
    expect(refusal(tokenLog(4), [splice([2, 2], [], 3)])).toMatchObject({ code: "replacement_invalid", param: "directives[0].with" });
  });

  test("a target of a splice must lie wholly before its boundary, an insertion may stand at it", () => {
    expect(refusal(tokenLog(6), [splice([2, 5], [], 4)])).toMatchObject({ param: "directives[0].target.tokens" });
    expect(text(fold(tokenLog(6), [splice([4, 4], [900], 4)]))).toEqual([100, 101, 102, 103, 900, 104, 105]);
  });

  test("with is tokenised alone as text, and ids must be in the vocabulary", () => {
    const log: Log = { ...tokenLog(4), tokenize: (value) => Array.from(value, (character) => character.charCodeAt(0)), vocabulary: 1_000 };
    expect(text(fold(log, [{ op: "splice", target: { tokens: [1, 3] }, with: "ab" }]))).toEqual([100, 97, 98, 103]);
    expect(refusal(log, [splice([1, 2], [5, 1_000], 4)])).toMatchObject({ param: "directives[0].with[1]" });
    expect(refusal(tokenLog(4), [{ op: "splice", target: { tokens: [1, 2] }, with: "ab" }])).toMatchObject({ kind: "unsupported", param: "directives[0].with" });
  });
});

describe("replacements", () => {
  test("a later target covers a replacement whole or not at all, exactly if start ≤ s < end", () => {
    const first = splice([3, 5], [900, 901], 6);
    expect(text(fold(tokenLog(10), [first, drop([3, 4], 8)]))).toEqual([100, 101, 102, 105, 106, 107, 108, 109]);
    expect(text(fold(tokenLog(10), [first, drop([4, 6], 8)]))).toEqual([100, 101, 102, 900, 901, 106, 107, 108, 109]);
    expect(text(fold(tokenLog(10), [first, drop([0, 3], 8)]))).toEqual([900, 901, 105, 106, 107, 108, 109]);
    expect(text(fold(tokenLog(10), [first, splice([2, 4], [902], 8)]))).toEqual([100, 101, 902, 105, 106, 107, 108, 109]);
  });

  test("at one place the newer stands in front", () => {
    expect(text(fold(tokenLog(8), [splice([3, 3], [900], 5), splice([3, 3], [901], 6)]))).toEqual([100, 101, 102, 901, 900, 103, 104, 105, 106, 107]);
  });

  test("a replacement belongs to the message that owns token s, and goes with it", () => {
    const log = chatLog([4, 4, 4]);
    const inserted: Directive = { op: "splice", target: { tokens: [4, 4] }, with: [900], at: { message: 1 } };
    expect(text(fold(log, [inserted, { op: "drop", target: { messages: [0] } }]))).toContain(900);
    expect(text(fold(log, [inserted, { op: "drop", target: { messages: [1] } }]))).not.toContain(900);
  });
});

describe("refresh", () => {
  test("the first refresh_tokens visible cells behind the target are computed again where they stand, replacements included", () => {
    const folded = fold(tokenLog(10), [splice([6, 6], [901, 902], 8), splice([2, 4], [900], 9, { mode: "refresh", refresh_tokens: 4 })]);
    expect(folded.outcomes[1]).toMatchObject({ recomputed: 4 });
    const again = folded.births.filter(({ kind }) => kind === "recomputed");
    expect(tokensOf(folded, again)).toEqual([104, 105, 901, 902]);
    expect(seen(folded)).toBe("100@0 101@1 900@2 104@3 105@4 901@5 902@6 106@7 107@8 108@9 109@10");
  });

  test("they see what is visible before them, and one another", () => {
    const { births, tokens } = fold(tokenLog(8), [splice([2, 4], [900], 7, { mode: "refresh", refresh_tokens: 2 })]);
    const again = births.find(({ kind }) => kind === "recomputed")!;
    expect(again.view.flatMap(({ cell, length }) => [...tokens.subarray(cell, cell + length)])).toEqual([100, 101, 900]);
    expect([...tokens.subarray(again.cell, again.cell + again.length)]).toEqual([104, 105]);
  });

  test("fewer than refresh_tokens: all; the default is 16", () => {
    expect(fold(tokenLog(8), [splice([2, 4], [], 8, { mode: "refresh" })]).outcomes[0]).toMatchObject({ recomputed: 4 });
    expect(fold(tokenLog(40), [splice([2, 4], [], 40, { mode: "refresh" })]).outcomes[0]).toMatchObject({ recomputed: 16 });
  });

  test("a splice's own replacement is not computed twice, one behind it at the same boundary is", () => {
    const folded = fold(tokenLog(8), [splice([2, 2], [900], 7, { mode: "refresh", refresh_tokens: 2 }), splice([3, 4], [901], 7)]);
    const again = folded.births.filter(({ kind }) => kind === "recomputed");
    expect(tokensOf(folded, again)).toEqual([102, 901]);
  });

  test("cells that a refresh computed keep token and coordinate: a later target finds them", () => {
    expect(text(fold(tokenLog(8), [splice([2, 4], [], 6, { mode: "refresh" }), drop([4, 5], 7)]))).toEqual([100, 101, 105, 106, 107]);
  });
});

describe("forget", () => {
  test("the answer is that of the log in which the target never stood", () => {
    const folded = fold(tokenLog(8), [forget([2, 5], [900], 6)]);
    expect([...folded.tokens]).toEqual([100, 101, 900, 105, 106, 107]);
    expect(folded.events).toEqual([]);
    expect(folded.forgotten).toBe(3);
    expect(folded.outcomes[0]).toMatchObject({ status: "applied", hidden: 3, inserted: 1, delta: -2, at_token: 6, ranges: [[2, 5]] });
  });

  test("a boundary at or before s stays, one inside goes behind R, one behind moves with the text", () => {
    expect([1, 3, 4, 5, 6, 8].map(boundaryInEdited)).toEqual([1, 3, 5, 5, 5, 7]);
  });

  test("the report names the boundary of the request's own log", () => {
    expect(fold(tokenLog(10), [forget([3, 6], [], 9), drop([0, 1], 8)]).outcomes[1]).toMatchObject({ at_token: 8, ranges: [[0, 1]] });
  });

  test("other targets lose the forgotten tokens; one left with nothing has no effect, reason forgotten", () => {
    const folded = fold(tokenLog(10), [forget([3, 6], [], 9), drop([2, 5], 8), drop([4, 6], 8), { op: "scratch", target: { tokens: [3, 5] }, at: { token: 7 } }]);
    expect(folded.outcomes.map(({ status, reason, hidden }) => [status, reason, hidden])).toEqual([
      ["applied", undefined, 3],
      ["applied", undefined, 1],
      ["no_effect", "forgotten", 0],
      ["no_effect", "forgotten", 0],
    ]);
    expect(folded.nextPosition).toBe(7);
  });

  test("a splice target cut in two acts as two, the second with an empty replacement", () => {
    const cut = fold(tokenLog(10), [forget([4, 5], [800], 8), splice([2, 7], [900], 7)]);
    expect(text(cut)).toEqual([100, 101, 900, 800, 107, 108, 109]);
  });

  test("R is covered only by targets of a later boundary with start ≤ s < end", () => {
    expect(covered(9, [3, 7])).toBe(true);
    expect(covered(9, [4, 5])).toBe(true);
    expect(covered(9, [5, 7])).toBe(false);
    expect(covered(9, [2, 4])).toBe(false);
    expect(covered(8, [3, 7])).toBe(false);
    expect(covered(7, [3, 7])).toBe(false);
  });

  test("a replacement of the same or an earlier boundary whose place lies in [s, e) never stands", () => {
    expect(stands(7, [5, 5])).toBe(false);
    expect(stands(7, [4, 4])).toBe(false);
    expect(stands(7, [3, 5])).toBe(true);
    expect(stands(8, [7, 7])).toBe(true);
    expect(stands(9, [5, 5])).toBe(true);
    expect(stands(9, [5, 9])).toBe(true);
    expect(stands(9, [5, 6])).toBe(false);
  });

  test("several forgets go in order of boundary, then start: a later one covers the replacement of an earlier one", () => {
    expect([...fold(tokenLog(10), [forget([2, 4], [801], 9), forget([3, 6], [800], 7)]).tokens]).toEqual([100, 101, 801, 106, 107, 108, 109]);
    expect([...fold(tokenLog(10), [forget([3, 6], [800], 7), forget([4, 8], [801], 9)]).tokens]).toEqual([100, 101, 102, 800, 801, 108, 109]);
    expect([...fold(tokenLog(10), [forget([6, 7], [802], 9), forget([2, 3], [801], 9)]).tokens]).toEqual([100, 101, 801, 103, 104, 105, 802, 107, 108, 109]);
  });

  test("a forget that leaves no token is refused", () => {
    expect(refusal(tokenLog(4), [forget([0, 4], [], 4)])).toMatchObject({ code: "target_invalid", param: "directives[0].target" });
    expect([...fold(chatLog([4], 2), [{ op: "splice", target: { messages: [0] }, with: [], mode: "forget" }]).tokens]).toEqual([104, 105]);
  });

  test("the edited log may be longer than the context before the edit, and must fit behind it", () => {
    expect(fold(tokenLog(12, 10), [forget([2, 5], [], 8)]).nextPosition).toBe(9);
    expect(refusal(tokenLog(13, 9), [forget([2, 5], [], 8)])).toMatchObject({ code: "context_length_exceeded" });
  });
});

describe("the first generated token", () => {
  test("comes from the last prompt token as first computed, whatever the end boundary inserts or computes again", () => {
    const at = { token: 6 };
    expect(fold(tokenLog(6), [{ op: "splice", target: { tokens: [2, 3] }, with: [900], mode: "refresh", at }]).lastCell).toBe(5);
    expect(fold(tokenLog(6), [drop([4, 6], 6)]).lastCell).toBe(5);
    expect(fold(tokenLog(6), [splice([4, 6], [], 6, { mode: "forget" })]).lastCell).toBe(3);
  });

  test("in chat the header's rows come behind an absent boundary, so a directive acts on it", () => {
    const { births } = fold(chatLog([4, 4], 2), [{ op: "drop", target: { messages: [0] } }]);
    expect(births.map(({ token, length }) => [token, length])).toEqual([
      [0, 8],
      [8, 2],
    ]);
    expect(births[1]!.view).toEqual([{ cell: 4, length: 4, birth: 4, shift: 0 }]);
  });
});

describe("retention", () => {
  test("scratch: an absent boundary is the end of its target, where it is a drop and a reposition, and its cells go first", () => {
    const folded = fold(tokenLog(10), [{ op: "scratch", target: { tokens: [2, 5] } }]);
    expect(seen(folded)).toBe("100@0 101@1 105@2 106@3 107@4 108@5 109@6");
    expect(folded.outcomes[0]).toMatchObject({ at_token: 5, hidden: 3, delta: -3, status: "applied" });
    expect(folded.retention).toEqual([{ cells: [2, 5], priority: 0, seconds: null, directive: 0 }]);
  });

  test("scratch is one of its boundary's drops: they share one reposition", () => {
    const folded = fold(tokenLog(10), [drop([0, 1], 5), { op: "scratch", target: { tokens: [2, 4] }, at: { token: 5 } }, reposition(5)]);
    expect(folded.nextPosition).toBe(7);
    expect(folded.outcomes.map(({ hidden, delta }) => [hidden, delta])).toEqual([
      [1, 0],
      [2, 0],
      [undefined, -3],
    ]);
  });

  test("decay drops behind the n-th assistant message that follows its boundary, until then it only lowers retention", () => {
    const directive: Directive = { op: "decay", target: { messages: [1] }, turns: 2, at: { message: 1 } };
    const priorities = [0, 1].map((turns) => fold(chat(turns), [directive]).retention.map(({ priority }) => priority));
    expect(priorities).toEqual([[23], [11]]);
    const folded = fold(chat(2), [directive]);
    // Messages: 0 system, 1 user, 2 assistant, 3 tool, 4 user, 5 assistant, …
    expect(folded.events).toMatchObject([{ at: 3 + 4 + 5 + 6 + 2 + 5, hidden: [[3, 7]] }]);
    expect(folded.outcomes[0]).toMatchObject({ at_token: 7, hidden: 4 });
    expect(fold(chat(4), [directive]).events[0]!.key).toBe(folded.events[0]!.key);
  });

  test("turns are refused in completions", () => {
    expect(refusal(tokenLog(5), [{ op: "decay", target: { tokens: [0, 2] }, turns: 1 }])).toMatchObject({ kind: "invalid", param: "directives[0].turns" });
    expect(refusal(tokenLog(5), [{ op: "pin", target: { tokens: [0, 2] }, until: { turns: 1 } }])).toMatchObject({ kind: "invalid", param: "directives[0].until.turns" });
    expect(fold(tokenLog(5), [{ op: "pin", target: { tokens: [0, 2] }, until: { seconds: 9 } }]).retention).toEqual([{ cells: [0, 2], priority: 100, seconds: 9, directive: 0 }]);
  });

  test("pin ends with its turns, reaches only what stays visible, and is never on the path", () => {
    const pin: Directive = { op: "pin", target: { messages: [0, 1] }, until: { turns: 2 }, at: { message: 1 } };
    expect(fold(chat(1), [pin, { op: "drop", target: { messages: [0] }, at: { message: 1 } }]).retention).toEqual([{ cells: [3, 7], priority: 100, seconds: null, directive: 0 }]);
    expect(fold(chat(2), [pin]).outcomes[0]).toMatchObject({ status: "no_effect", reason: "expired" });
    expect(fold(chat(1), [pin]).events).toEqual([]);
  });
});
