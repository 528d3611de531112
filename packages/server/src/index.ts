export { serviceOf, type ServiceOptions } from "./assemble.ts";
export { createApp, type App, type AppOptions } from "./app.ts";
export { SERVER_ERROR_CODES, ServerError, type ErrorKind, type ServerErrorCode } from "./errors.ts";
export { Lifecycle } from "./lifecycle.ts";
export { DEFAULT_LIMITS, type ServerLimits } from "./limits.ts";
export { loadService, type LoadOptions } from "./load.ts";
export type { Service } from "./service.ts";
export { readTenants } from "./tenants.ts";
