import { Registry, type Verb } from "../registry.ts";
import { drop } from "./drop.ts";
import { reposition } from "./reposition.ts";

export const standardVerbs: readonly Verb[] = [drop, reposition];

/** The verbs that come with the package. Immutable; `standardRegistry.with([...])` adds others. */
export const standardRegistry = new Registry(standardVerbs);
