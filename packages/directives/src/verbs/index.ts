import type { z } from "zod";
import { Registry, type Verb } from "../registry.ts";
import { decay, type decaySchema } from "./decay.ts";
import { drop, type dropSchema } from "./drop.ts";
import { pin, type pinSchema } from "./pin.ts";
import { reposition, type repositionSchema } from "./reposition.ts";
import { scratch, type scratchSchema } from "./scratch.ts";
import { splice, type spliceSchema } from "./splice.ts";

export type DropDirective = z.infer<typeof dropSchema>;
export type RepositionDirective = z.infer<typeof repositionSchema>;
export type SpliceDirective = z.infer<typeof spliceSchema>;
export type PinDirective = z.infer<typeof pinSchema>;
export type DecayDirective = z.infer<typeof decaySchema>;
export type ScratchDirective = z.infer<typeof scratchSchema>;

/** The directives of this package's verbs, as a request writes them. */
export type StandardDirective = DropDirective | RepositionDirective | SpliceDirective | PinDirective | DecayDirective | ScratchDirective;

export const standardVerbs: readonly Verb[] = [drop, reposition, splice, pin, decay, scratch];

/** The verbs that come with the package. Immutable; `standardRegistry.with([...])` adds others. */
export const standardRegistry = new Registry(standardVerbs);
