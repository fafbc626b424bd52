import type { Hex } from './ids.ts'

/** Returns 0x-hex of bytes, in lower case. */
export const toHex = (bytes: Uint8Array): Hex =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`

/** Returns the bytes of 0x-hex, which must be well-formed and of even length. */
export const fromHex = (hex: string): Buffer => Buffer.from(hex.slice(2), 'hex')
