export type CanonicalField = Uint8Array | string | number | null

/**
 * Fields as bytes with one reading only: each is a length (32-bit big-endian) and that many bytes, so no two lists
 * of fields give the same bytes. Text is UTF-8, numbers are decimal digits, null is a length of its own.
 * For what is authenticated or chained: the additional data of wrapped keys, the records of the ledger.
 */
export function canonical(...fields: CanonicalField[]): Buffer {
  const parts: Uint8Array[] = []
  for (const field of fields) {
    const length = Buffer.allocUnsafe(4)
    parts.push(length)
    if (field === null) {
      length.writeUInt32BE(0xffff_ffff)
      continue
    }
    const bytes = field instanceof Uint8Array ? field : Buffer.from(String(field), 'utf8')
    length.writeUInt32BE(bytes.length)
    parts.push(bytes)
  }
  return Buffer.concat(parts)
}
