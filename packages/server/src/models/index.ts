export { cacheFolder, modelsFolder } from "./cache-folder.ts";
export { CATALOG, type CatalogEntry, DEFAULT_MODEL } from "./catalog.ts";
export { MODEL_ERROR_CODES, ModelError, type ModelErrorCode } from "./errors.ts";
export { type ListedModel, type PullOptions, type ResolvedModel, isCached, listModels, pullModel, resolveModel } from "./models.ts";
export { type OnProgress, type PullProgress, formatBytes, progressBar } from "./progress.ts";
