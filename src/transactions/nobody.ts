/** Addresses that nobody has: between them a network is asked what transactions cost. */
export const [SOMEONE, OTHER] = [`0x${'5e'.repeat(20)}`, `0x${'5f'.repeat(20)}`] as const
