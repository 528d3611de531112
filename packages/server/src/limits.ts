/** Every bound of the HTTP layer. What exceeds one is refused by name; nothing grows without end. */
export interface ServerLimits {
  /** A request's body. */
  bodyBytesMax: number;
  /** Bytes of a body beyond the limit that are still read, and thrown away, so that its client reads the refusal. */
  discardBytesMax: number;
  /** A refused body of which nothing has come for so long is read no further. */
  discardIdleMs: number;
  /** Nesting of a request's JSON: deeper values would overflow the stack of whatever walks them. */
  bodyDepthMax: number;
  /** Top-level fields of a body. */
  bodyFieldsMax: number;
  /** Values in a body's objects and arrays, token ids of a prompt left out: each may cost an error message before it is refused. */
  bodyValuesMax: number;
  messagesMax: number;
  toolsMax: number;
  stopStringsMax: number;
  stopLengthMax: number;
  /** Alternatives listed for each token. */
  alternativesMax: number;
  /** Requests that may wait or run at once, over all clients. */
  requestsMax: number;
  /** How long a stream's headers wait for a refusal, which then has a status of its own. */
  refusalMs: number;
  /** A stream that has sent nothing for so long sends a comment. */
  heartbeatMs: number;
  /** A client that takes nothing from a full buffer for so long loses its stream, and its pages are free. */
  stallMsMax: number;
  /** A step that computes for longer has hung, as far as `/health` is concerned: a chunk of a prompt on a large model and a slow level is far below. */
  stepMsMax: number;
}

export const DEFAULT_LIMITS: Readonly<ServerLimits> = {
  bodyBytesMax: 16 * 1024 * 1024,
  discardBytesMax: 64 * 1024 * 1024,
  discardIdleMs: 500,
  bodyDepthMax: 128,
  bodyFieldsMax: 256,
  bodyValuesMax: 262_144,
  messagesMax: 4096,
  toolsMax: 1024,
  stopStringsMax: 16,
  stopLengthMax: 1024,
  alternativesMax: 20,
  requestsMax: 256,
  refusalMs: 20,
  heartbeatMs: 5_000,
  stallMsMax: 60_000,
  stepMsMax: 300_000,
};
