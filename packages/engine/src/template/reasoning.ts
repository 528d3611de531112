import { type Node, mentionsName } from "./jinja.ts";

type Condition = Node & { test?: Node; condition?: Node; body?: unknown; trueExpr?: unknown; lhs?: unknown };
type Comparison = Node & { left: Node; right: Node };
type Member = Node & { object?: Node & { value?: unknown }; property?: Node & { value?: unknown } };

/** A block, `a if test else b`, and `a if test`. */
const CONDITIONS: ReadonlySet<string> = new Set(["If", "Ternary", "SelectExpression"]);

/** Holds in every template: `setGlobals` defines it. */
const TRUE = { type: "Identifier", value: "true" };

/**
 * The same template, with the reasoning of earlier turns left in. Templates of this kind (Qwen 3, MiniMax, GLM) show reasoning only where
 * the loop is behind the last question: a comparison of `loop.index0` in the condition of a branch that renders `reasoning_content`. That
 * comparison holds here for every message; the rest of the condition stays. A template that hides reasoning in another way is unchanged.
 */
export function keepingReasoning(program: Node): Node {
  return copy(program, false) as Node;
}

/** A copy of a tree in which, inside the conditions of branches with reasoning (`guarded`), comparisons with the loop's place are true. */
function copy(tree: unknown, guarded: boolean): unknown {
  if (Array.isArray(tree)) return tree.map((item) => copy(item, guarded));
  if (tree instanceof Map) return new Map([...tree].map(([key, value]) => [copy(key, guarded), copy(value, guarded)]));
  if (typeof tree !== "object" || tree === null) return tree;
  const node = tree as Condition & Comparison;
  if (guarded && node.type === "BinaryExpression" && (isPlace(node.left) || isPlace(node.right))) return TRUE;
  const hides = CONDITIONS.has(node.type) && mentionsName(node.body ?? node.trueExpr ?? node.lhs, "reasoning_content");
  const entries = Object.entries(node).map(([key, value]) => {
    const isTest = key === "test" || key === "condition";
    return [key, copy(value, guarded || (hides && isTest))];
  });
  return Object.assign(Object.create(Object.getPrototypeOf(node) as object), Object.fromEntries(entries)) as unknown;
}

/** `loop.index0` or `loop.index`. */
function isPlace(node: Member | undefined): boolean {
  return node?.type === "MemberExpression" && node.object?.value === "loop" && (node.property?.value === "index0" || node.property?.value === "index");
}

/** What a model writes around its reasoning. */
export interface ThinkingMarks {
  open: string;
  close: string;
}

/** The marks of most models, which the content of a message may have too. */
export const THINK_TAGS: ThinkingMarks = { open: "<think>", close: "</think>" };

/** The marks that a template puts around a thought: the nearest tag on each side, else the nearest word. Null where it does not render it. */
export function marksAround(rendered: string, thought: string, content: string): ThinkingMarks | null {
  const at = rendered.indexOf(thought);
  if (at < 0) return null;
  const before = rendered.slice(0, at).trimEnd();
  const behind = (rendered.slice(at + thought.length).split(content)[0] ?? "").trimStart();
  const open = /(?:<[^<>]*>|\[[^[\]]*\])$/.exec(before) ?? /\S+$/.exec(before);
  const close = /^(?:<[^<>]*>|\[[^[\]]*\])/.exec(behind) ?? /^\S+/.exec(behind);
  return open === null || close === null ? null : { open: open[0], close: close[0] };
}
