import type { Revert } from '../errors.ts'
import { bytesOf } from './bytes.ts'
import { type DecodeBudget, budgetFor, tryDecodeSequence } from './decode.ts'
import { type AbiErrorItem, type AbiFunction, selectorOf, signatureOf } from './item.ts'
import { knownError } from './known-errors.ts'
import { wireValue } from './results.ts'
import { type Shape, shapeOf, type Value } from './shape.ts'
import { cleanText } from './text.ts'

/** bytes; longer data is not decoded, and is truncated in responses and in the database */
const MAX_REVERT_BYTES = 32_768
/** characters of `reason` */
const MAX_REASON = 256

const ERROR_SELECTOR = '0x08c379a0'
const PANIC_SELECTOR = '0x4e487b71'
const OFFCHAIN_SELECTOR = '0x556f1830'

/**
 * Decodes a revert, in the same way for reads, simulations and mined failures. Never throws.
 * @param data    0x-hex from the node; null if it sent none
 * @param errors  the caller's `error` items; they take precedence over the built-in list
 * @param called  the call, if it is known
 * @returns `args` in the wire form of results, with NUL replaced, so that a database can store them; `name`,
 * `signature` and `args` are null if nothing decodes the data
 */
export function decodeRevert(
  data: string | null,
  errors: readonly AbiErrorItem[],
  called: RevertedCall | null = null,
): Revert {
  const bytes = bytesOf(data ?? '0x') ?? Buffer.alloc(0)
  if (bytes.length < 4) return undecoded(bytes, bytes.length === 0 ? withoutReason(called) : NOT_AN_ERROR)
  const selector = `0x${bytes.toString('hex', 0, 4)}`
  const revert = decodeSelected(selector, bytes, errors)
  // Explain OffchainLookup even if its data does not decode, so that nobody has to look up the selector.
  return selector === OFFCHAIN_SELECTOR ? { ...revert, reason: OFFCHAIN } : revert
}

function decodeSelected(selector: string, bytes: Buffer, errors: readonly AbiErrorItem[]): Revert {
  if (bytes.length > MAX_REVERT_BYTES) {
    const cut = `its data is truncated from ${bytes.length} to ${MAX_REVERT_BYTES} bytes`
    return undecoded(bytes, `The contract reverted with the unknown error ${selector}; ${cut}.`)
  }
  // All attempts share the budget: a caller may list many items with one selector, and a contract may send data that
  // costs each the maximum.
  const budget = budgetFor(bytes)
  return (
    decodeStandard({ selector, bytes, budget }) ??
    decodeCustom({ selector, bytes, budget }, errors) ??
    undecoded(bytes, `The contract reverted with the unknown error ${selector}.`)
  )
}

// URLs that a contract names are not fetched: it could name any host that the server can reach.
const OFFCHAIN =
  'The contract stores this data outside the network (OffchainLookup, ERC-3668). This service does not fetch that data. Request it from one of `urls` in `revert.args`, and pass the response to `callbackFunction`.'

/** The reverted call, which explains a revert without data. `value` in wei. */
export type RevertedCall = { data: string; value: bigint; fn?: AbiFunction | null }

/**
 * Explains a revert without data. A contract reverts so if it has no such function and no fallback, or if a function
 * that is not payable receives value.
 */
function withoutReason(call: RevertedCall | null): string {
  const said = 'The contract gave no reason.'
  if (call === null) return said
  const selector = call.data.length < 10 ? null : call.data.slice(0, 10)
  if (call.value > 0n && call.fn?.stateMutability !== 'payable')
    return selector === null
      ? `${said} The call sent ${call.value} wei, and the contract may not accept native currency.`
      : `${said} The call sent ${call.value} wei, and a function that is not payable accepts no value. Omit the value. If the function is payable, the contract may not have the selector ${selector}.`
  if (selector === null) return said
  return `${said} The contract may not have a function with the selector ${selector}. Check the address, the name and the types.`
}

type RevertToDecode = { selector: string; bytes: Buffer; budget: DecodeBudget }

const NOT_AN_ERROR = 'The contract reverted with data that does not decode as an error.'

function undecoded(bytes: Buffer, reason: string): Revert {
  const selector = bytes.length < 4 ? null : `0x${bytes.toString('hex', 0, 4)}`
  return { name: null, signature: null, args: null, selector, data: rawData(bytes), reason }
}

const rawData = (bytes: Buffer): string => `0x${bytes.toString('hex', 0, Math.min(bytes.length, MAX_REVERT_BYTES))}`

/** Decodes `Error(string)` of require and revert, and `Panic(uint256)` of the compiler. */
function decodeStandard(attempt: RevertToDecode): Revert | null {
  if (attempt.selector === ERROR_SELECTOR) {
    const revert = decodeAs({ name: 'Error', inputs: [{ name: 'message', type: 'string' }] }, attempt)
    return (
      revert && { ...revert.revert, reason: sentence(revert.values[0] as string) || 'The contract gave no reason.' }
    )
  }
  if (attempt.selector === PANIC_SELECTOR) {
    const revert = decodeAs({ name: 'Panic', inputs: [{ name: 'code', type: 'uint256' }] }, attempt)
    return revert && { ...revert.revert, reason: explainPanic(revert.values[0] as bigint) }
  }
  return null
}

function decodeCustom(attempt: RevertToDecode, errors: readonly AbiErrorItem[]): Revert | null {
  for (const item of errors) {
    if (selectorOf(item) !== attempt.selector) continue
    const decoded = decodeAs(item, attempt)
    if (decoded) return decoded.revert
  }
  const known = knownError(attempt.selector)
  return known ? (decodeAs(known, attempt)?.revert ?? null) : null
}

function decodeAs(
  item: AbiErrorItem,
  { selector, bytes, budget }: RevertToDecode,
): { revert: Revert; values: Value[] } | null {
  const shapes = item.inputs.map(shapeOf)
  // Contracts that build reverts by hand omit the padding of the last string.
  const padding = Buffer.alloc((32 - ((bytes.length - 4) % 32)) % 32)
  const values = tryDecodeSequence(shapes, Buffer.concat([bytes.subarray(4), padding]), budget)
  if (!values) return null
  const args = values.map((value, index) => withoutNul(wireValue(shapes[index]!, value)))
  const reason = sentence(`The contract reverted with ${item.name}(${describe(item, shapes, values)}).`)
  return {
    values,
    revert: { name: item.name, signature: signatureOf(item), args, selector, data: rawData(bytes), reason },
  }
}

function withoutNul(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\0', '\uFFFD')
  return Array.isArray(value) ? value.map(withoutNul) : value
}

function describe(item: AbiErrorItem, shapes: Shape[], values: Value[]): string {
  return item.inputs
    .map(({ name }, index) => `${name === '' ? '' : `${name}: `}${describeValue(shapes[index]!, values[index]!)}`)
    .join(', ')
}

function describeValue(shape: Shape, value: Value): string {
  if (shape.kind === 'string') return JSON.stringify(value)
  if (!Array.isArray(value)) return String(shape.kind === 'address' ? wireValue(shape, value) : value)
  // A sentence lists no more than this; `args` has all.
  const items = value.slice(0, 8).map((item, index) => {
    return describeValue(shape.kind === 'tuple' ? shape.components[index]! : (shape as { item: Shape }).item, item)
  })
  const open = shape.kind === 'tuple' ? '()' : '[]'
  return `${open[0]}${items.join(', ')}${value.length > 8 ? ', …' : ''}${open[1]}`
}

function sentence(text: string): string {
  const clean = cleanText(text, MAX_REASON + 1)
  return Array.from(clean).length > MAX_REASON ? `${cleanText(clean, MAX_REASON - 1)}…` : clean
}

/** Source: docs.soliditylang.org, "Error handling", Panic via assert and Error via require */
const panics = new Map<bigint, string>([
  [0x00n, 'the compiler’s generic panic'],
  [0x01n, 'an assertion failed'],
  [0x11n, 'an arithmetic operation overflowed or underflowed'],
  [0x12n, 'a division or modulo by zero'],
  [0x21n, 'a number was converted to an enum that has no such member'],
  [0x22n, 'a byte array in storage is wrongly encoded'],
  [0x31n, 'pop() on an empty array'],
  [0x32n, 'an array index is out of bounds'],
  [0x41n, 'too much memory was allocated, or an array is too large'],
  [0x51n, 'an uninitialised internal function was called'],
])

function explainPanic(code: bigint): string {
  const known = panics.get(code)
  const number = `0x${code.toString(16).padStart(2, '0')}`
  return known
    ? `The contract panicked: ${known} (${number}).`
    : `The contract panicked with the unknown code ${number}.`
}
