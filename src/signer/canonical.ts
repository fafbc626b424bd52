export type CanonicalField = Uint8Array | string | number | null

/**
 * Fields as bytes with one reading only: each is a length (32-bit big-endian) and that many bytes, so no two lists
 * of fields give the same bytes. Text is UTF-8, numbers are decimal digits, null is a length of its own.
 * For what is authenticated or chained: the additional data of wrapped keys, the records of the ledger.
 */
export function canonical(...fields: CanonicalField[]): Buffer {
  let size = 4 * fields.length
  // Measured first and written into one piece: the additional data of each wrapped key is made here, twice in a rotation.
  const values = fields.map((field) => {
    const value = typeof field === 'number' ? String(field) : field
    if (value !== null) size += typeof value === 'string' ? Buffer.byteLength(value, 'utf8') : value.length
    return value
  })
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const value of values) {
    if (value === null) {
      at = bytes.writeUInt32BE(0xffff_ffff, at)
      continue
    }
    const start = at + 4
    if (typeof value === 'string') at = start + bytes.write(value, start, 'utf8')
    else {
      bytes.set(value, start)
      at = start + value.length
    }
    bytes.writeUInt32BE(at - start, start - 4)
  }
  return bytes
}
