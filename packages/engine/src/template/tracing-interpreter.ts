import {
  InterpreterBase, type Node, type Scope, type TextValue, type Value, isList, isMap, isText, isTrue, makeScope, mentionsVariable, values,
} from "./jinja.ts";
import {
  type Origin, type Piece, SCAFFOLD, TracedText, UNKNOWN_DATA, compactPieces, mergedOrigin, piecesOf, slicePieces, traceResult,
} from "./traced-text.ts";

type Loop = Node & { loopvar: Node; body: Node[]; defaultBlock: Node[] };
type Condition = Node & { test?: Node; condition?: Node };
type Operation = Node & { operator: { value: string }; left: Node; right: Node };
type Filter = Node & { value?: string; callee?: Node & { value: string }; args?: Node[] };
type Slice = Node & { start?: Node; step?: Node };

/** A loop that runs: what its iterations rendered so far. */
interface RunningLoop {
  body: Node[];
  defaultBlock: Node[];
  variables: string[];
  pieces: Piece[];
}

const LEFT = { type: "Identifier", value: "left" };
const RIGHT = { type: "Identifier", value: "right" };

/**
 * The library's interpreter, with texts that know where they come from. Everything a template renders passes `evaluateBlock`; a loop
 * whose item is known (a message, a tool call) gives what its body renders to that item, unless something inside knows better.
 */
export class TracingInterpreter extends InterpreterBase {
  /** Origin of values that are no texts: messages, tool calls, arguments. */
  readonly #origins: WeakMap<Value, Origin>;
  readonly #headerOwner: number;
  readonly #loops: RunningLoop[] = [];

  constructor(scope: Scope, origins: WeakMap<Value, Origin>, headerOwner: number) {
    super(scope);
    this.#origins = origins;
    this.#headerOwner = headerOwner;
  }

  override evaluate(statement: Node | undefined, scope: Scope): Value {
    switch (statement?.type) {
      case "StringLiteral":
        return TracedText.of((statement as Node & { value: string }).value, SCAFFOLD);
      case "BinaryExpression": {
        const operator = (statement as Operation).operator.value;
        return operator === "+" || operator === "~" ? this.#join(statement as Operation, scope) : super.evaluate(statement, scope);
      }
      case "For":
        return this.#loop(statement as Loop, scope);
      case "If":
      case "Ternary":
        return this.#choose(statement as Condition, scope);
      default:
        return super.evaluate(statement, scope);
    }
  }

  override evaluateBlock(statements: Node[], scope: Scope): TextValue {
    const loop = this.#loops.at(-1);
    const isIteration = loop !== undefined && (statements === loop.body || statements === loop.defaultBlock);
    const item = isIteration && statements === loop.body ? this.#itemOrigin(loop, scope) : undefined;
    const pieces: Piece[] = [];
    for (const statement of statements) {
      const value = this.evaluate(statement, scope);
      if (value.type === "NullValue" || value.type === "UndefinedValue") continue;
      if (isText(value)) pieces.push(...piecesOf(value));
      else pieces.push({ text: value.toString(), origin: { ...this.#originOf(value), data: true } });
    }
    const block = compactPieces(isIteration ? claim(pieces, item) : pieces);
    if (isIteration) loop.pieces.push(...block);
    return new TracedText(block);
  }

  override applyFilter(operand: Value, filter: Node, scope: Scope): Value {
    const result = super.applyFilter(operand, filter, scope);
    if (!isText(result) || result instanceof TracedText) return result;
    const { value, callee, args = [] } = filter as Filter;
    const name = value ?? callee?.value ?? "";
    const literals = args.every((arg) => arg.type === "StringLiteral" || arg.type === "IntegerLiteral");
    if (operand instanceof TracedText && literals) {
      return traceResult(operand, name, args.map((arg) => this.evaluate(arg, scope)), result);
    }
    const origin = this.#originOf(operand);
    return TracedText.of(result.value, { ...origin, data: origin.data || !literals });
  }

  override evaluateSliceExpression(object: Value, slice: Node, scope: Scope): Value {
    const result = super.evaluateSliceExpression(object, slice, scope);
    if (!(object instanceof TracedText) || !isText(result)) return result;
    const { start, step } = slice as Slice;
    if ((this.evaluate(step, scope).value ?? 1) !== 1) return TracedText.of(result.value, mergedOrigin(object.pieces.map((piece) => piece.origin)));
    // Slices count code points, and from the end where they are negative, exactly as an array of code points does.
    const first = Number(this.evaluate(start, scope).value ?? 0);
    const characters = Array.from(object.value);
    const from = object.value.length - characters.slice(first).join("").length;
    return new TracedText(slicePieces(object.pieces, from, from + result.value.length));
  }

  /** `+` and `~`: a text that is joined from others keeps their origins. */
  #join(node: Operation, scope: Scope): Value {
    // Each operand is evaluated once, here; the library then meets it as a variable.
    const operands = makeScope();
    const left = operands.setVariable("left", this.evaluate(node.left, scope));
    const right = operands.setVariable("right", this.evaluate(node.right, scope));
    const result = super.evaluate({ ...node, left: LEFT, right: RIGHT } as Node, operands);
    if (!isText(result)) return result;
    const pieces = [...this.#piecesOfOperand(left), ...this.#piecesOfOperand(right)];
    const traced = new TracedText(pieces);
    return traced.value === result.value ? traced : TracedText.of(result.value, mergedOrigin(pieces.map((piece) => piece.origin)));
  }

  #piecesOfOperand(value: Value): readonly Piece[] {
    if (isText(value)) return piecesOf(value);
    return [{ text: String((value as { value: unknown }).value), origin: { ...this.#originOf(value), data: true } }];
  }

  #loop(node: Loop, scope: Scope): Value {
    const running: RunningLoop = { body: node.body, defaultBlock: node.defaultBlock, variables: namesOf(node.loopvar), pieces: [] };
    this.#loops.push(running);
    try {
      const result = super.evaluate(node, scope) as TextValue;
      const traced = new TracedText(running.pieces);
      return traced.value === result.value ? traced : TracedText.of(result.value, UNKNOWN_DATA);
    } finally {
      this.#loops.pop();
    }
  }

  /** Origin of the item that a loop is at. */
  #itemOrigin(loop: RunningLoop, scope: Scope): Origin | undefined {
    for (const name of loop.variables) {
      const item = scope.variables.get(name);
      const origin = item && this.#origins.get(item);
      if (origin !== undefined) return origin;
    }
    return undefined;
  }

  /** What is rendered only because a generation header was asked for belongs to the header. */
  #choose(node: Condition, scope: Scope): Value {
    const result = super.evaluate(node, scope);
    const test = node.test ?? node.condition;
    if (!isText(result) || !mentionsVariable(test, "add_generation_prompt")) return result;
    const without = makeScope(scope);
    without.setVariable("add_generation_prompt", new values.boolean(false));
    const isHeader = isTrue(this.evaluate(test, scope)) !== isTrue(this.evaluate(test, without));
    if (!isHeader) return result;
    return new TracedText(piecesOf(result).map(({ text, origin }) => ({ text, origin: { ...origin, owner: this.#headerOwner, part: null } })));
  }

  /** Origin of a value, or of the first one inside it that has one. Keys of objects are texts of the request. */
  #originOf(value: Value): Origin {
    if (isText(value)) return mergedOrigin(piecesOf(value).map((piece) => piece.origin));
    const known = this.#origins.get(value);
    if (known !== undefined) return known;
    const inner = isList(value) ? value.value : isMap(value) ? [...value.value.values()] : [];
    if (inner.length === 0) return UNKNOWN_DATA;
    const merged = mergedOrigin(inner.map((item) => this.#originOf(item)));
    return isList(value) ? merged : { ...merged, data: true };
  }
}

/**
 * Gives what an iteration rendered to its item: what nobody owns, and what it repeats of earlier messages (the name of a tool above its
 * result). What it renders of later ones stays theirs. Without a known item, what nobody owns belongs to the one message that owns all
 * the rest.
 */
function claim(pieces: readonly Piece[], item: Origin | undefined): Piece[] {
  const owners = new Set(pieces.map((piece) => piece.origin.owner).filter((owner) => owner >= 0));
  const owner = item?.owner ?? (owners.size === 1 ? ([...owners][0] as number) : -1);
  const part = item?.part ?? null;
  return pieces.map(({ text, origin }) => {
    if (origin.owner >= 0 && item !== undefined && origin.owner < owner) return { text, origin: { ...origin, owner, part } };
    return { text, origin: { ...origin, owner: origin.owner >= 0 ? origin.owner : owner, part: origin.owner > owner ? origin.part : (origin.part ?? part) } };
  });
}

const namesOf = (loopvar: Node): string[] => {
  const { type, value } = loopvar as Node & { value: unknown };
  return type === "TupleLiteral" ? (value as Node[]).flatMap(namesOf) : [String(value)];
};

