import { addressIn } from './address.ts'
import { typedDataInvalid } from './invalid.ts'
import type { StructMember, StructTypes, ValueType } from './struct-types.ts'

/** A parsed value: text for `string`, bytes for addresses and both kinds of bytes. */
export type TypedValue = string | bigint | boolean | Buffer | readonly TypedValue[] | StructValue
export type StructValue = ReadonlyMap<string, TypedValue>

type Path = readonly (string | number)[]

/** Returns the own entries of a JSON object. @throws MessageInvalid */
export function entriesOf(value: unknown, path: Path): Map<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw typedDataInvalid(path, 'expected an object')
  return new Map(Object.entries(value))
}

/** Reads a value that has exactly these members. @throws MessageInvalid */
export function readStruct(
  members: readonly StructMember[],
  value: unknown,
  path: Path,
  types: StructTypes,
): StructValue {
  // prettier-ignore
  const given = entriesOf(value, path)
  for (const name of given.keys())
    if (!members.some((member) => member.name === name))
      throw typedDataInvalid([...path, name], 'its type does not declare this field')
  return new Map(
    members.map(({ name, type }) => {
      if (!given.has(name)) throw typedDataInvalid([...path, name], 'this field is missing')
      return [name, readValue(type, given.get(name), [...path, name], types)]
    }),
  )
}

function readValue(type: ValueType, value: unknown, path: Path, types: StructTypes): TypedValue {
  switch (type.is) {
    case 'struct':
      return readStruct(types.get(type.name)!, value, path, types)
    case 'array': {
      if (!Array.isArray(value)) throw typedDataInvalid(path, 'expected a list')
      if (type.length !== null && value.length !== type.length)
        throw typedDataInvalid(path, `expected ${type.length} elements`)
      return value.map((element: unknown, index) => readValue(type.element, element, [...path, index], types))
    }
    case 'integer':
      return readInteger(type, value, path)
    case 'address':
      return addressIn(value) ?? invalid(path, 'expected an address: 0x and 40 hexadecimal digits, with a right checksum or in one case') // prettier-ignore
    case 'bool':
      return typeof value === 'boolean' ? value : invalid(path, 'expected true or false')
    case 'string':
      if (typeof value !== 'string') return invalid(path, 'expected a text')
      return value.isWellFormed() ? value : invalid(path, 'half of a surrogate pair is missing')
    case 'bytes':
      return bytesIn(value) ?? invalid(path, 'expected bytes as 0x-hex')
    case 'fixedBytes': {
      const bytes = bytesIn(value)
      return bytes?.length === type.length ? bytes : invalid(path, `expected ${type.length} bytes as 0x-hex`)
    }
  }
}

function invalid(path: Path, problem: string): never {
  throw typedDataInvalid(path, problem)
}

/** Parses bytes as 0x-hex. Returns null for any other value. */
export const bytesIn = (value: unknown): Buffer | null =>
  typeof value === 'string' && /^0x(?:[0-9a-fA-F]{2})*$/.test(value) ? Buffer.from(value.slice(2), 'hex') : null

/** Reads a JSON number, or decimal or hexadecimal digits as text. */
function readInteger({ isSigned, bits }: { isSigned: boolean; bits: number }, value: unknown, path: Path): bigint {
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw typedDataInvalid(path, 'a number with a fraction or beyond 2^53 is not exact; send a whole number as text')
  const isText = typeof value === 'string' && /^(?:0|-?[1-9]\d{0,77}|0x[0-9a-fA-F]{1,64})$/.test(value)
  if (typeof value !== 'number' && !isText)
    throw typedDataInvalid(path, 'expected a whole number, in decimal or 0x-hexadecimal digits')
  const number = BigInt(value as number | string)
  const [min, end] = isSigned ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1)] : [0n, 2n ** BigInt(bits)]
  if (number < min || number >= end) throw typedDataInvalid(path, `it does not fit ${isSigned ? '' : 'u'}int${bits}`)
  return number
}

/** Converts a parsed value for JSON: integers to decimal digits, bytes to 0x-hex. */
export function toJson(value: TypedValue): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (Buffer.isBuffer(value)) return `0x${value.toString('hex')}`
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, one]) => [name, toJson(one)]))
  return Array.isArray(value) ? value.map(toJson) : value
}
