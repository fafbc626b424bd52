export type CanonicalField = Uint8Array | string | number | null

/**
 * Encodes fields so that no two lists of fields give the same bytes. Each field is its length (32-bit big-endian) and that many
 * bytes. Text is UTF-8, a number is its decimal digits, and null is a reserved length. It is used for everything that is
 * authenticated or chained: the additional data of wrapped keys, the records of the ledger.
 */
export function canonical(...fields: CanonicalField[]): Buffer {
  let size = 4 * fields.length
  // Measures first and then writes into one buffer: every wrapping of a key runs this, a rotation twice per key.
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
