import type { Lifecycle } from "./lifecycle.ts";
import type { ServerLimits } from "./limits.ts";
import type { Metrics } from "./metrics.ts";
import type { TenantTable } from "./tenants.ts";

/** What the routes of one server share. */
export interface ServerContext {
  lifecycle: Lifecycle;
  limits: Readonly<ServerLimits>;
  metrics: Metrics;
  tenants: TenantTable;
}
