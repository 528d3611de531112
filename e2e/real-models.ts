/* oxlint-disable vitest/valid-title, vitest/no-conditional-tests, vitest/valid-describe-callback, vitest/expect-expect -- it decides which tests there are */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CATALOG, modelsFolder } from "@palimpsest/server";
import { describe, test } from "vitest";

/**
 * Tests on a model of the catalog, where its file lies in the cache folder. Elsewhere they are skipped by name, and fail with `CI=true`:
 * a pipeline must never be green because it tested nothing.
 */
export function describeWithModel(name: string, title: string, body: (path: string) => void): void {
  const entry = CATALOG.find((candidate) => candidate.name === name);
  if (entry === undefined) throw new Error(`there is no model ${name}`);
  const path = join(modelsFolder(), entry.file);
  describeUnless(existsSync(path) ? null : `${name} is not in the cache folder; fetch it with: palimpsest pull ${name}`, title, () => body(path));
}

/** The same for whatever else a machine may lack; `reason` says what, null: nothing. */
export function describeUnless(reason: string | null, title: string, body: () => void): void {
  if (reason === null) {
    describe(title, body);
  } else if (process.env["CI"] === "true") {
    test(title, () => {
      throw new Error(reason);
    });
  } else {
    console.warn(`skipped: ${title}: ${reason}`);
    describe.runIf(false)(title, () => test(reason, () => undefined));
  }
}
