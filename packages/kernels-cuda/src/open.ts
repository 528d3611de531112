import { wholeNumber } from "./arguments.ts";
import { NativeCells } from "./cells.ts";
import { checkStep } from "./check.ts";
import { loadNative } from "./loader.ts";
import { awaiting, calling, type NativeRuntime } from "./native.ts";
import type { CellDtype, KernelLevel, MemoryReport, ModelInfo, Runtime, RuntimeOptions } from "./runtime.ts";
import type { Step, StepResult } from "./step.ts";

const PAGE_SIZE_DEFAULT = 16;

/**
 * Loads a GGUF model and reserves its pages.
 *
 * Errors: `argument_invalid`, `backend_unsupported` (a level or a dtype that this machine or version has not), `model_file_unreadable`,
 * `model_file_damaged`, `architecture_unsupported`, `tensor_type_unsupported`, `rotary_unsupported`, `cells_exceed_memory`.
 */
export async function openRuntime(path: string, options: RuntimeOptions): Promise<Runtime> {
  const pages = wholeNumber("pages", options.pages, 1);
  const pageSize = wholeNumber("pageSize", options.pageSize ?? PAGE_SIZE_DEFAULT, 1);
  const threads = options.threads === undefined ? 0 : wholeNumber("threads", options.threads, 1);
  const native = calling(() => loadNative());
  const runtime = await awaiting(() =>
    native.openRuntime(
      path,
      {
        kernels: options.kernels ?? "auto",
        cacheDtype: options.cacheDtype ?? "f16",
        pages,
        pageSize,
        threads,
        ...(options.panicAt && { panicAt: { inPool: false, ...options.panicAt } }),
      },
      options.onProgress,
    ),
  );
  return new NativeBackedRuntime(runtime);
}

class NativeBackedRuntime implements Runtime {
  readonly info: ModelInfo;
  readonly level: KernelLevel;
  readonly cacheDtype: CellDtype;
  readonly pages: number;
  readonly pageSize: number;
  readonly pageBytes: number;
  readonly threads: number;
  readonly cells: NativeCells;
  readonly #native: NativeRuntime;
  /** One for all calls: each waits for the steps that were queued before the first. */
  #disposed: Promise<void> | undefined;

  constructor(native: NativeRuntime) {
    const facts = native.facts;
    this.#native = native;
    this.info = native.info;
    this.level = facts.level;
    this.cacheDtype = facts.cacheDtype;
    this.pages = facts.pages;
    this.pageSize = facts.pageSize;
    this.pageBytes = facts.pageBytes;
    this.threads = facts.threads;
    this.cells = new NativeCells(native);
  }

  async step(step: Step, cancel: Int32Array): Promise<StepResult> {
    const fields = checkStep(step, cancel);
    const { logits, ...result } = await awaiting(() => this.#native.step(fields, cancel));
    if (step.logits && logits) step.logits.set(logits);
    return result;
  }

  clearPages(pages: Int32Array): void {
    calling(() => this.#native.clearPages(pages));
  }

  memory(): MemoryReport {
    return calling(() => this.#native.memory());
  }

  dispose(): Promise<void> {
    this.#disposed ??= awaiting(() => this.#native.dispose());
    return this.#disposed;
  }
}
