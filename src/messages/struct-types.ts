import { typedDataInvalid } from './invalid.ts'

/** A parsed type of EIP-712. */
export type ValueType =
  | { is: 'address' | 'bool' | 'string' | 'bytes' }
  | { is: 'integer'; isSigned: boolean; bits: number }
  | { is: 'fixedBytes'; length: number }
  | { is: 'struct'; name: string }
  /** `length`: null for any number of elements */
  | { is: 'array'; element: ValueType; length: number | null }

/** `text`: the type as written; the hash covers this text */
export type StructMember = { name: string; text: string; type: ValueType }
export type StructTypes = ReadonlyMap<string, readonly StructMember[]>

/** Maximum depth of arrays and structs; the message is level 1. */
const MAX_DEPTH = 8
const MAX_TYPES = 64
const MAX_MEMBERS = 64
/** Maximum characters of a member's type: a name of 128, and array brackets for every level. */
const MAX_TYPE_LENGTH = 192
const NAME = /^[A-Za-z_$][\w$]{0,127}$/
/** Names that JavaScript objects inherit. Another program could read another value than the hashed one. */
const INHERITED = new Set(['__proto__', 'constructor', 'prototype'])
/**
 * Names that no struct may have: Solidity's elementary types, similar texts, everything that begins like a number type or bytes, and
 * everything with a dollar sign. Other libraries reject these names or hash them differently.
 * Source: eth-sig-util findTypeDependencies, viem validateReference
 */
const NO_STRUCT = /^(?:address|bool|string|byte|u?fixed(?:\d+x\d+)?|function|mapping)$|^(?:u?int|bytes)|\$/

export const DOMAIN_TYPE = 'EIP712Domain'

/**
 * The possible members of a domain, in order. Source: EIP-712, definition of domainSeparator
 */
export const DOMAIN_MEMBERS: readonly (readonly [name: string, text: string])[] = [
  ['name', 'string'],
  ['version', 'string'],
  ['chainId', 'uint256'],
  ['verifyingContract', 'address'],
  ['salt', 'bytes32'],
]

/**
 * Reads `types` of typed data, and returns them in the order of `encodeType`. The primary type must need every one. `readDomain`
 * reads the domain's type.
 * @param declared  members by name of the type, as declared: lists of `{ name, type }`
 * @throws MessageInvalid
 */
export function readStructTypes(declared: ReadonlyMap<string, unknown>, primaryType: string): StructTypes {
  if (declared.size > MAX_TYPES) throw typedDataInvalid(['types'], `it has more than ${MAX_TYPES} types`)
  const types = new Map<string, StructMember[]>()
  for (const [name, members] of declared) {
    if (name === DOMAIN_TYPE) continue
    if (!isStructName(name)) throw typedDataInvalid(['types', name], 'it is not a name of a type')
    types.set(name, readMembers(members, ['types', name]))
  }
  if (!types.has(primaryType)) throw typedDataInvalid(['primaryType'], 'it is not a type of this typed data')
  for (const [name, members] of types)
    for (const [index, { type }] of members.entries()) {
      const needed = structOf(type)
      if (needed !== null && !types.has(needed))
        throw typedDataInvalid(['types', name, index, 'type'], `the type ${needed} is not declared`)
    }
  assertDepth(types, primaryType)
  const needed = [primaryType, ...referencedBy(types, primaryType)]
  for (const name of types.keys())
    if (!needed.includes(name)) throw typedDataInvalid(['types', name], 'the message does not use this type')
  return new Map(needed.map((name) => [name, types.get(name)!]))
}

/** Reads the members of one type. @throws MessageInvalid */
export function readMembers(value: unknown, path: (string | number)[]): StructMember[] {
  if (!Array.isArray(value)) throw typedDataInvalid(path, 'expected a list of members')
  if (value.length > MAX_MEMBERS) throw typedDataInvalid(path, `it has more than ${MAX_MEMBERS} members`)
  const known = new Set<string>()
  return value.map((member: unknown, index) => {
    const own = typeof member === 'object' && member !== null ? Object.entries(member) : []
    const { name, type: text } = Object.fromEntries(own) as Record<string, unknown>
    if (own.length !== 2 || typeof name !== 'string' || typeof text !== 'string')
      throw typedDataInvalid([...path, index], 'expected name and type alone, both as text')
    if (!isName(name)) throw typedDataInvalid([...path, index, 'name'], 'it is not a name of a member')
    if (known.has(name)) throw typedDataInvalid([...path, index, 'name'], 'another member has this name')
    known.add(name)
    const type = text.length > MAX_TYPE_LENGTH ? null : typeOf(text)
    if (type === null) throw typedDataInvalid([...path, index, 'type'], 'it is not a type of EIP-712')
    return { name, text, type }
  })
}

const isName = (text: string): boolean => NAME.test(text) && !INHERITED.has(text)
const isStructName = (text: string): boolean => isName(text) && !NO_STRUCT.test(text)

function typeOf(text: string): ValueType | null {
  const [, element, length] = /^(.+)\[(|[1-9]\d{0,4})\]$/s.exec(text) ?? []
  if (element !== undefined) {
    const type = typeOf(element)
    return type === null ? null : { is: 'array', element: type, length: length === '' ? null : Number(length) }
  }
  if (text === 'address' || text === 'bool' || text === 'string' || text === 'bytes') return { is: text }
  const [, sign, bits] = /^(u?)int([1-9]\d{0,2})$/.exec(text) ?? []
  if (bits !== undefined && Number(bits) % 8 === 0 && Number(bits) <= 256)
    return { is: 'integer', isSigned: sign === '', bits: Number(bits) }
  const [, size] = /^bytes([1-9]\d?)$/.exec(text) ?? []
  if (size !== undefined && Number(size) <= 32) return { is: 'fixedBytes', length: Number(size) }
  return isStructName(text) && text !== DOMAIN_TYPE ? { is: 'struct', name: text } : null
}

const structOf = (type: ValueType): string | null =>
  type.is === 'array' ? structOf(type.element) : type.is === 'struct' ? type.name : null

/** Asserts that no type contains itself, and that the depth of values is limited. Visits each type once. */
function assertDepth(types: StructTypes, primaryType: string): void {
  const depths = new Map<string, number>()
  const open = new Set<string>()
  const depthOf = (name: string): number => {
    const known = depths.get(name)
    if (known !== undefined) return known
    if (open.has(name)) throw typedDataInvalid(['types', name], 'the type contains itself')
    open.add(name)
    let depth = 0
    for (const { type } of types.get(name)!) {
      const struct = structOf(type)
      depth = Math.max(depth, arraysOf(type) + (struct === null ? 0 : depthOf(struct)))
    }
    open.delete(name)
    depths.set(name, depth + 1)
    return depth + 1
  }
  for (const name of types.keys()) depthOf(name)
  if (depths.get(primaryType)! > MAX_DEPTH)
    throw typedDataInvalid(['types'], `values are nested more than ${MAX_DEPTH} levels deep`)
}

const arraysOf = (type: ValueType): number => (type.is === 'array' ? 1 + arraysOf(type.element) : 0)

/** Returns the types that a type refers to, in the order of their names, without the type itself. */
function referencedBy(types: StructTypes, name: string): string[] {
  const found = new Set<string>()
  const waiting = [name]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
    for (const { type } of types.get(next)!) {
      const struct = structOf(type)
      if (struct === null || found.has(struct)) continue
      found.add(struct)
      waiting.push(struct)
    }
  return [...found].toSorted()
}

/** Encodes a type and the types that it refers to as text. Source: EIP-712, encodeType */
export function encodeType(types: StructTypes, name: string): string {
  return [name, ...referencedBy(types, name)]
    .map(
      (one) =>
        `${one}(${types
          .get(one)!
          .map(({ text, name: member }) => `${text} ${member}`)
          .join(',')})`,
    )
    .join('')
}
