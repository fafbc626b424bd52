/** What RLP can hold: bytes, or a list of the same. */
export type Rlp = Uint8Array | readonly Rlp[] | Encoded

/** Something that is encoded already, to be taken as it is. */
export type Encoded = { encoded: Buffer }

/** Recursive length prefix encoding. Source: Ethereum yellow paper, appendix B */
export function encodeRlp(item: Rlp): Buffer {
  if ('encoded' in item) return item.encoded
  if (item instanceof Uint8Array) {
    if (item.length === 1 && item[0]! < 0x80) return Buffer.from(item)
    return Buffer.concat([prefixOf(item.length, 0x80), item])
  }
  const parts = item.map(encodeRlp)
  const size = parts.reduce((sum, part) => sum + part.length, 0)
  return Buffer.concat([prefixOf(size, 0xc0), ...parts])
}

function prefixOf(size: number, base: number): Buffer {
  if (size < 56) return Buffer.of(base + size)
  const length = bytesOf(size)
  return Buffer.concat([Buffer.of(base + 55 + length.length), length])
}

/** A number in as few bytes as it needs; zero in none. */
export function bytesOf(number: number | bigint): Buffer {
  const digits = number.toString(16)
  return digits === '0' ? Buffer.alloc(0) : Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex')
}
