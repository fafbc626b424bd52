import type { Hex } from '../wire.ts'
import { invalidParams } from './errors.ts'

/** A call of the user's account; wei as decimal text, as in the API. */
export type Call = { to: Hex; data?: Hex; value?: string }

const CALL_FIELDS = new Set(['from', 'to', 'data', 'input', 'value', 'chainId'])
/**
 * Ignored fields. The service sets prices, the transaction type that follows from them, and the gas limit: a library's
 * estimate lacks the additional gas of a sponsor's transaction.
 */
const IGNORED = new Set(['gas', 'gasPrice', 'maxFeePerGas', 'maxPriorityFeePerGas', 'type'])

/**
 * Reads the transaction of an `eth_sendTransaction`. Ignores prices and the gas limit. Rejects a nonce, an
 * authorization list, blobs and an access list, because the service cannot apply them.
 */
export function transactionOf(value: unknown, { chainId }: { chainId: number }): { from: Hex | null; call: Call } {
  const fields = objectOf(value, 'transaction')
  for (const name of Object.keys(fields))
    if (!CALL_FIELDS.has(name) && !IGNORED.has(name) && !isEmptyList(fields[name]))
      throw invalidParams(`The wallet chooses \`${name.slice(0, 64)}\` itself, or does not support it.`)
  if (fields.chainId !== undefined && Number(quantityOf(fields.chainId, 'chainId')) !== chainId)
    throw invalidParams(`The wallet is on network ${chainId}.`)
  return { from: fields.from === undefined ? null : addressOf(fields.from, 'from'), call: callOf(fields) }
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

export function callOf(fields: Record<string, unknown>): Call {
  const { to, data, input, value } = fields
  if (to === undefined) throw invalidParams('`to` is missing: accounts cannot create contracts.')
  if (data !== undefined && input !== undefined && data !== input)
    throw invalidParams('`data` and `input` differ: send one of them.')
  const bytes = data ?? input
  return {
    to: addressOf(to, 'to'),
    ...(bytes === undefined ? {} : { data: bytesOf(bytes) }),
    ...(value === undefined ? {} : { value: quantityOf(value, 'value').toString() }),
  }
}

/** Reads an object; null counts as absent. */
export function objectOf(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidParams(`Expected an object: ${name}.`)
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null && one !== undefined))
}

export const isAddress = (value: unknown): value is Hex =>
  typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value)

export function addressOf(value: unknown, name: string): Hex {
  if (!isAddress(value)) throw invalidParams(`\`${name}\` is not an address.`)
  return value
}

export function quantityOf(value: unknown, name: string): bigint {
  if (typeof value !== 'string' || !/^0x[0-9a-fA-F]{1,64}$/.test(value))
    throw invalidParams(`\`${name}\` is not a quantity in hexadecimal.`)
  return BigInt(value)
}

function bytesOf(value: unknown): Hex {
  if (typeof value !== 'string' || !/^0x([0-9a-fA-F]{2})*$/.test(value))
    throw invalidParams('`data` is not bytes in hexadecimal.')
  return value as Hex
}

/** Formats a chain id as required by EIP-1193. */
export const toQuantity = (number: number | bigint): Hex => `0x${number.toString(16)}`

/**
 * Reads the message of `personal_sign`: 0x-hex of bytes, or text.
 * @returns `message` if the bytes are text, because the service shows text to the user; otherwise `hex`
 */
export function messageOf(value: unknown): { message: string } | { hex: Hex } {
  if (typeof value !== 'string') throw invalidParams('The message is not text.')
  if (!/^0x([0-9a-fA-F]{2})*$/.test(value)) return { message: value }
  const bytes = Uint8Array.from(value.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
  try {
    return { message: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) }
  } catch {
    return { hex: value as Hex }
  }
}
