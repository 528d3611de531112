import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";

/**
 * What this package uses of @huggingface/jinja beyond its declared types. Owners and parts of the rendered text come from the
 * evaluation of the template's tree, so a few methods of the interpreter that are not declared are overridden (tracing-interpreter.ts).
 * The version is pinned exactly, and `template-jinja.test.ts` fails when one of them is gone.
 */

/** The library's method for the truth of a value, named as in Python. */
const TRUTH = "__bool__";

/** A node of a template's tree. */
export interface Node {
  type: string;
}

export interface Value {
  type: string;
  value: unknown;
  toString(): string;
  [TRUTH](): { value: boolean };
}

export interface TextValue extends Value {
  value: string;
  readonly builtins: Map<string, Value>;
}

export interface FunctionLike extends Value {
  value: (args: Value[], scope: Scope) => Value;
}

export interface MapValue extends Value {
  value: Map<string, Value>;
}

export interface ListValue extends Value {
  value: Value[];
}

/** Variables of a template, or of a loop or macro inside it. */
export interface Scope {
  variables: Map<string, Value>;
  set(name: string, value: unknown): Value;
  setVariable(name: string, value: Value): Value;
  lookupVariable(name: string): Value;
}

/** The parts of the interpreter that evaluate what a trace needs to follow. */
export interface InterpreterCore {
  global: Scope;
  run(program: Node): Value;
  evaluate(statement: Node | undefined, scope: Scope): Value;
  evaluateBlock(statements: Node[], scope: Scope): TextValue;
  applyFilter(operand: Value, filter: Node, scope: Scope): Value;
  evaluateSliceExpression(object: Value, slice: Node, scope: Scope): Value;
}

export const InterpreterBase = Interpreter as unknown as new (scope: Scope) => InterpreterCore;

export function makeScope(parent?: Scope): Scope {
  return new Environment(parent as unknown as Environment) as unknown as Scope;
}

/** The classes of values, which the package does not export: taken from values that it makes. */
function valueClasses() {
  const scope = makeScope();
  const classOf = <T>(value: unknown) => scope.set(`v${scope.variables.size}`, value).constructor as new (value: T) => Value;
  return {
    text: classOf<string>("") as new (value: string) => TextValue,
    integer: classOf<number>(0),
    float: classOf<number>(0.5),
    boolean: classOf<boolean>(true),
    null: classOf<null>(null),
    list: classOf<Value[]>([]) as new (value: Value[]) => ListValue,
    map: classOf<Map<string, Value>>({}) as new (value: Map<string, Value>) => MapValue,
    function: classOf<FunctionLike["value"]>(() => null) as new (value: FunctionLike["value"]) => FunctionLike,
  };
}

export const values = valueClasses();

/** Whether a value counts as true: as in Python, an empty text, list or map does not. */
export const isTrue = (value: Value): boolean => value[TRUTH]().value;

export const isText = (value: Value): value is TextValue => value instanceof values.text;
export const isList = (value: Value): value is ListValue => value instanceof values.list;
export const isMap = (value: Value): value is MapValue => value instanceof values.map;

/** Parses a template as chat templates are meant: a block tag takes its line's indent and the line end after it with it. */
export function parseTemplate(text: string): Node {
  return parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true }));
}

/** Calls `visit` for every node of a tree. */
export function visitNodes(tree: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(tree)) {
    for (const item of tree) visitNodes(item, visit);
  } else if (tree instanceof Map) {
    for (const [key, value] of tree) {
      visitNodes(key, visit);
      visitNodes(value, visit);
    }
  } else if (typeof tree === "object" && tree !== null) {
    if ("type" in tree && typeof tree.type === "string") visit(tree as Node);
    visitNodes(Object.values(tree), visit);
  }
}

/** Whether a tree reads a variable. */
export function mentionsVariable(tree: unknown, name: string): boolean {
  let found = false;
  visitNodes(tree, (node) => {
    found ||= node.type === "Identifier" && (node as Node & { value: string }).value === name;
  });
  return found;
}

/** Whether a tree names a member, as `message.name`, `message["name"]` or the argument of a filter or test. */
export function mentionsName(tree: unknown, name: string): boolean {
  let found = false;
  visitNodes(tree, (node) => {
    found ||= (node.type === "Identifier" || node.type === "StringLiteral") && (node as Node & { value: string }).value === name;
  });
  return found;
}
