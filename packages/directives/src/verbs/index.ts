import { Registry, type Verb } from "../registry.ts";
import { decay } from "./decay.ts";
import { drop } from "./drop.ts";
import { pin } from "./pin.ts";
import { reposition } from "./reposition.ts";
import { scratch } from "./scratch.ts";
import { splice } from "./splice.ts";

export const standardVerbs: readonly Verb[] = [drop, reposition, splice, pin, decay, scratch];

/** The verbs that come with the package. Immutable; `standardRegistry.with([...])` adds others. */
export const standardRegistry = new Registry(standardVerbs);
