import { createHash } from 'node:crypto'

/** Of a text as UTF-8: what is kept of a secret that someone else has. */
export const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
