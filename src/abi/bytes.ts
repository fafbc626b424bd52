/** Decodes 0x-hex in any case. Returns null if it is invalid or has an odd number of digits. */
export function bytesOf(hex: string): Buffer | null {
  if (hex.length % 2 !== 0 || !/^0x[0-9a-fA-F]*$/.test(hex)) return null
  return Buffer.from(hex.slice(2), 'hex')
}
