import { explainAddress } from './address.ts'
import type { Leaf, Value } from './shape.ts'

type Reading = { value: Value } | { code: string; detail: string }

/** Parses a value strictly by its type. `detail` is a clause that does not repeat the caller's text. */
export function readLeaf(shape: Leaf, text: string): Reading {
  switch (shape.kind) {
    case 'uint':
      return readInteger(text, { least: 0n, most: (1n << BigInt(shape.bits)) - 1n, type: `uint${shape.bits}` })
    case 'int': {
      const half = 1n << BigInt(shape.bits - 1)
      return readInteger(text, { least: -half, most: half - 1n, type: `int${shape.bits}` })
    }
    case 'bool':
      if (text === 'true' || text === 'false') return { value: text === 'true' }
      return { code: 'not_a_boolean', detail: 'must be true or false' }
    case 'address':
      return explainAddress(text) ?? { value: text.toLowerCase() }
    case 'bytes':
      return readBytes(text, null)
    case 'fixedBytes':
      return readBytes(text, shape.size)
    default:
      if (text.isWellFormed()) return { value: text }
      return { code: 'not_text', detail: 'has an unpaired surrogate, which has no UTF-8 form' }
  }
}

const DECIMAL = /^(?:0|-?[1-9][0-9]*)$/
const HEXADECIMAL = /^(-?)0x([0-9a-fA-F]+)$/
const LEADING_ZEROS = /^0+(?=.)/

function readInteger(text: string, { least, most, type }: { least: bigint; most: bigint; type: string }): Reading {
  const hex = HEXADECIMAL.exec(text)
  if (!hex && !DECIMAL.test(text)) {
    return { code: 'not_an_integer', detail: `must be an integer in decimal or 0x-hexadecimal digits (${type})` }
  }
  const digits = hex ? hex[2]!.replace(LEADING_ZEROS, '') : text
  // 2^256 has 78 decimal and 65 hexadecimal digits: a longer text need not become a number.
  const value = digits.length > 80 ? null : hex ? BigInt(`0x${digits}`) * (hex[1] ? -1n : 1n) : BigInt(digits)
  if (value !== null && value >= least && value <= most) return { value }
  return { code: 'out_of_range', detail: `does not fit ${type}` }
}

/** @param size  number of bytes; null: any number */
function readBytes(text: string, size: number | null): Reading {
  if (!/^0x[0-9a-fA-F]*$/.test(text) || text.length % 2 !== 0) {
    return { code: 'not_bytes', detail: 'must be 0x and an even number of hexadecimal digits' }
  }
  const found = text.length / 2 - 1
  if (size !== null && found !== size) {
    return { code: 'wrong_length', detail: `must have ${size} bytes, has ${found}` }
  }
  return { value: text.toLowerCase() }
}
