/** A value that RLP can encode: bytes, a number (shortest big-endian bytes, none for zero), or a list of values. */
export type Rlp = Uint8Array | bigint | number | readonly Rlp[] | Encoded

/** A value that is encoded already and is inserted unchanged. */
export type Encoded = { encoded: Buffer }

/**
 * Encodes a value in recursive length prefix encoding. Numbers must not be negative.
 * Source: Ethereum yellow paper, appendix B
 */
export function encodeRlp(item: Rlp): Buffer {
  if (typeof item === 'number' || typeof item === 'bigint') return encodeRlp(bytesOf(item))
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

function bytesOf(number: number | bigint): Buffer {
  const digits = number.toString(16)
  return digits === '0' ? Buffer.alloc(0) : Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex')
}

/** A decoded value. Its bytes are views of the input, not copies. */
export type Decoded = Buffer | Decoded[]

/** Decodes one RLP item. @returns null if it is cut off, or bytes remain */
export function decodeRlp(all: Buffer): Decoded | null {
  const read = decodeAt(all, 0)
  return read === null || read.end !== all.length ? null : read.item
}

function decodeAt(all: Buffer, at: number): { item: Decoded; end: number } | null {
  const first = all[at]
  if (first === undefined) return null
  if (first < 0x80) return { item: all.subarray(at, at + 1), end: at + 1 }
  const isList = first >= 0xc0
  const size = first - (isList ? 0xc0 : 0x80)
  const sizeBytes = size < 56 ? 0 : size - 55
  const start = at + 1 + sizeBytes
  if (start > all.length || sizeBytes > 4) return null
  const end = start + (sizeBytes === 0 ? size : all.readUIntBE(at + 1, sizeBytes))
  if (end > all.length) return null
  if (!isList) return { item: all.subarray(start, end), end }
  const items: Decoded[] = []
  for (let next = start; next < end;) {
    const read = decodeAt(all.subarray(0, end), next)
    if (read === null) return null
    items.push(read.item)
    next = read.end
  }
  return { item: items, end }
}
