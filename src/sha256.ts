import { createHash } from 'node:crypto'

/** Returns SHA-256 of a text in UTF-8. Secrets of others are stored only as this hash. */
export const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
