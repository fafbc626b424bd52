/** Two addresses without a known key, used as sender and recipient when a node is asked to estimate gas. */
export const [SOMEONE, OTHER] = [`0x${'5e'.repeat(20)}`, `0x${'5f'.repeat(20)}`] as const
