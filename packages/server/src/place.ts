import type { FastifyReply } from "fastify";
import type { ServerContext } from "./context.ts";
import { ServerError } from "./errors.ts";

/**
 * Runs work that holds one of the server's places until the last byte of its answer is out, so that a server that drains cuts nothing
 * off. A client that leaves aborts the signal; what the work throws then is the reason why it was ended.
 */
export async function inPlace<T>({ lifecycle, limits }: ServerContext, reply: FastifyReply, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = lifecycle.enter(limits.requestsMax);
  const onClose = () => {
    if (!reply.raw.writableFinished) controller.abort(new ServerError("client_closed", "the client closed the connection"));
    lifecycle.leave(controller);
  };
  reply.raw.once("finish", () => lifecycle.leave(controller));
  reply.raw.once("close", onClose);
  if (reply.raw.destroyed) onClose();
  try {
    return await work(controller.signal);
  } catch (thrown) {
    throw abortReason(controller.signal) ?? thrown;
  }
}

/** Why work was ended from outside, where it was: the layers below only know that it was cancelled. */
export const abortReason = (signal: AbortSignal): unknown => (signal.aborted ? signal.reason : undefined);
