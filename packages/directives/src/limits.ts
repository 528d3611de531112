/** Bounds of what one request may ask. Each has a test that reaches it. */
export const LIMITS = {
  /** Directives of one request, all dialects together. */
  directives: 1_024,
  /** Ids in one list of messages. */
  messageIds: 4_096,
  /** Tokens of one replacement. */
  replacementTokens: 1_048_576,
  /** Forgets that touch the same tokens: what is left of each depends on which of the others were applied. */
  meetingForgets: 8,
  /** Characters of a text that a target searches for. */
  textCharacters: 1_048_576,
} as const;
