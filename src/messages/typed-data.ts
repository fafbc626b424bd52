import { wordDigits } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { typedDataInvalid } from './invalid.ts'
import {
  DOMAIN_MEMBERS,
  DOMAIN_TYPE,
  encodeType,
  readMembers,
  readStructTypes,
  type StructMember,
  type StructTypes,
  type ValueType,
} from './struct-types.ts'
import { entriesOf, readStruct, toJson, type StructValue, type TypedValue } from './struct-values.ts'
import { JsonInvalid, readUniqueJson } from '../unique-json.ts'

/** Parsed typed data, the only source for display, decision, hash and storage. */
export type TypedData = {
  /** all types except the domain's */
  types: StructTypes
  primaryType: string
  /** EIP-712's `encodeType(primaryType)` */
  encodedType: string
  domain: TypedDomain
  message: StructValue
}

/** The domain; absent members are null. */
export type TypedDomain = {
  members: readonly StructMember[]
  values: StructValue
  name: string | null
  version: string | null
  chainId: number | null
  verifyingContract: Buffer | null
  salt: Buffer | null
}

const MAX_BYTES = 32_768
/** Maximum characters of a JSON text. White space and escapes make it longer than its canonical form. */
const MAX_TEXT = 4 * MAX_BYTES
const FIELDS = ['types', 'primaryType', 'domain', 'message']

/**
 * Reads typed data in the format of `eth_signTypedData_v4`, as an object or as JSON text. It coerces and ignores nothing, because a
 * field that is displayed but not hashed deceives the user.
 * @throws MessageInvalid  with the place
 * Source: EIP-712
 */
export function readTypedData(input: unknown): TypedData {
  const fields = entriesOf(typeof input === 'string' ? parsed(input) : input, [])
  for (const name of fields.keys()) if (!FIELDS.includes(name)) throw typedDataInvalid([name], 'this field is unknown')
  for (const name of FIELDS) if (!fields.has(name)) throw typedDataInvalid([name], 'this field is missing')
  const primaryType = fields.get('primaryType')
  if (typeof primaryType !== 'string') throw typedDataInvalid(['primaryType'], 'expected a text')
  const declared = entriesOf(fields.get('types'), ['types'])
  const types = readStructTypes(declared, primaryType)
  const typed = {
    types,
    primaryType,
    encodedType: encodeType(types, primaryType),
    domain: readDomain(declared.get(DOMAIN_TYPE), fields.get('domain')),
    message: readStruct(types.get(primaryType)!, fields.get('message'), ['message'], types),
  }
  if (Buffer.byteLength(typedDataText(typed)) > MAX_BYTES) throw typedDataInvalid([], `it is over ${MAX_BYTES} bytes`)
  return typed
}

function parsed(text: string): unknown {
  if (text.length > MAX_TEXT) throw typedDataInvalid([], `it is over ${MAX_BYTES} bytes`)
  try {
    return readUniqueJson(text)
  } catch (error) {
    throw error instanceof JsonInvalid ? typedDataInvalid([], error.message) : error
  }
}

/** Reads the domain. If its type is not declared, it follows from the fields, as in viem and ethers. */
function readDomain(declared: unknown, value: unknown): TypedDomain {
  const given = entriesOf(value, ['domain'])
  const all = readMembers(DOMAIN_MEMBERS.map(([name, type]) => ({ name, type })), []) // prettier-ignore
  const members =
    declared === undefined
      ? all.filter(({ name }) => given.has(name))
      : assertDomain(readMembers(declared, ['types', DOMAIN_TYPE]), all)
  const values = readStruct(members, value, ['domain'], new Map())
  if (values.size === 0) throw typedDataInvalid(['domain'], 'it has no field')
  const chainId = (values.get('chainId') as bigint | undefined) ?? null
  if (chainId !== null && chainId > BigInt(Number.MAX_SAFE_INTEGER))
    throw typedDataInvalid(['domain', 'chainId'], 'no network has this id')
  return {
    members,
    values,
    name: (values.get('name') as string | undefined) ?? null,
    version: (values.get('version') as string | undefined) ?? null,
    chainId: chainId === null ? null : Number(chainId),
    verifyingContract: (values.get('verifyingContract') as Buffer | undefined) ?? null,
    salt: (values.get('salt') as Buffer | undefined) ?? null,
  }
}

/** Asserts that a declared domain has only members of EIP-712, in that order. */
function assertDomain(members: StructMember[], all: readonly StructMember[]): StructMember[] {
  const places = members.map(({ name, text }) => all.findIndex((one) => one.name === name && one.text === text))
  for (const [index, place] of places.entries())
    if (place < 0 || (index > 0 && place <= places[index - 1]!))
      throw typedDataInvalid(['types', DOMAIN_TYPE, index], 'it is not a field of a domain, or not at its place')
  return members
}

/** Formats typed data as canonical JSON text. `readTypedData` reads the same typed data from it. */
export function typedDataText({ types, primaryType, domain, message }: TypedData): string {
  const declared = [[DOMAIN_TYPE, domain.members] as const, ...types].map(([name, members]) => [
    name,
    members.map((member) => ({ name: member.name, type: member.text })),
  ])
  return JSON.stringify({
    types: Object.fromEntries(declared) as unknown,
    primaryType,
    domain: toJson(domain.values),
    message: toJson(message),
  })
}

/** Computes the 32 bytes that are signed. Source: EIP-712 */
export function typedDataDigest({ types, primaryType, domain, message }: TypedData): Buffer {
  const hash = hashStruct(hashed(types), primaryType, message)
  return keccak(Buffer.concat([Buffer.of(0x19, 0x01), domainSeparator(domain), hash]))
}

/** Computes the hash of a domain. Source: EIP-712, definition of domainSeparator */
export const domainSeparator = ({ members, values }: TypedDomain): Buffer =>
  hashStruct(hashed(new Map([[DOMAIN_TYPE, members]])), DOMAIN_TYPE, values)

/** Caches the hash of each type. */
type HashedTypes = ReadonlyMap<string, { hash: Buffer; members: readonly StructMember[] }>

const hashed = (types: StructTypes): HashedTypes =>
  new Map([...types].map(([name, members]) => [name, { hash: keccak(Buffer.from(encodeType(types, name))), members }]))

/** Computes the hash of a struct. Source: EIP-712, definition of hashStruct */
function hashStruct(types: HashedTypes, name: string, value: StructValue): Buffer {
  const { hash, members } = types.get(name)!
  return keccak(Buffer.concat([hash, ...members.map((one) => encodeValue(types, one.type, value.get(one.name)!))]))
}

/** Encodes a value in 32 bytes. Source: EIP-712, encodeData */
function encodeValue(types: HashedTypes, type: ValueType, value: TypedValue): Buffer {
  switch (type.is) {
    case 'struct':
      return hashStruct(types, type.name, value as StructValue)
    case 'array':
      return keccak(Buffer.concat((value as TypedValue[]).map((one) => encodeValue(types, type.element, one))))
    case 'integer':
      return Buffer.from(wordDigits(BigInt.asUintN(256, value as bigint)), 'hex')
    case 'bool':
      return Buffer.from(wordDigits(value === true ? 1n : 0n), 'hex')
    case 'address':
      return Buffer.concat([Buffer.alloc(12), value as Buffer])
    case 'string':
      return keccak(Buffer.from(value as string))
    case 'bytes':
      return keccak(value as Buffer)
    case 'fixedBytes':
      return Buffer.concat([value as Buffer, Buffer.alloc(32 - type.length)])
  }
}
