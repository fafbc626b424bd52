import assert from 'node:assert/strict'
import type { SignedAuthorization } from '../gas/authorization.ts'
import { encodeAuthorization } from '../gas/transaction.ts'
import { wordDigits } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp, type Rlp } from '../rlp.ts'
import type { Signature } from './keys/curve.ts'

/** A parsed transaction: addresses and data as bytes, amounts in wei, gas in gas units. */
export type UnsignedTransaction = {
  chainId: number
  from: Buffer
  nonce: number
  /** null would create a contract, which the rules reject */
  to: Buffer | null
  value: bigint
  data: Buffer
  gas: bigint
  fees: FeeFields
  /** of a transaction of type 4, which only `signOuter` and `cancelOuter` make */
  authorizations?: readonly SignedAuthorization[]
}

export type FeeFields = { type: 'legacy'; gasPrice: bigint } | MarketFees
export type MarketFees = { type: 'eip1559'; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }

/** Returns both fees of either form, in wei per gas, as the ledger compares them. */
export const feePair = (fees: FeeFields): { max: bigint; priority: bigint } =>
  fees.type === 'legacy'
    ? { max: fees.gasPrice, priority: fees.gasPrice }
    : { max: fees.maxFeePerGas, priority: fees.maxPriorityFeePerGas }

/** Hashes the effect of a transaction without its cost: recipient, value, data and any authorizations. */
export function effectOf({
  to,
  value,
  data,
  authorizations = [],
}: Pick<UnsignedTransaction, 'to' | 'value' | 'data' | 'authorizations'>): Buffer {
  const amount = Buffer.from(wordDigits(value), 'hex')
  const call = keccak(Buffer.concat([to ?? Buffer.alloc(0), amount, data]))
  if (authorizations.length === 0) return call
  return keccak(Buffer.concat([call, encodeRlp(authorizations.map(encodeAuthorization))]))
}

/** Returns whether a transaction only pays its fee: to itself, without value and data. A cancellation must. */
export const doesNothing = ({ from, to, value, data }: UnsignedTransaction): boolean =>
  to !== null && to.equals(from) && value === 0n && data.length === 0

/** Computes the 32 bytes to sign: EIP-155 for the legacy form, EIP-7702 with authorizations, EIP-1559 otherwise. */
export function digestOf(tx: UnsignedTransaction): Buffer {
  return keccak(
    tx.fees.type === 'legacy' ? encodeRlp([...legacyFields(tx), tx.chainId, 0, 0]) : typed(tx, feeMarketFields(tx)),
  )
}

/** Assembles the signed transaction; returns the bytes for a node, and their hash. */
export function assemble(tx: UnsignedTransaction, { r, s, recovery }: Signature): { raw: Buffer; hash: Buffer } {
  const point = [unpad(r), unpad(s)]
  const raw =
    tx.fees.type === 'legacy'
      ? encodeRlp([...legacyFields(tx), BigInt(tx.chainId) * 2n + 35n + BigInt(recovery), ...point])
      : typed(tx, [...feeMarketFields(tx), recovery, ...point])
  return { raw, hash: keccak(raw) }
}

function legacyFields({ nonce, gas, to, value, data, fees, authorizations = [] }: UnsignedTransaction): Rlp[] {
  assert(authorizations.length === 0, 'a transaction of the legacy form has no authorizations')
  return [nonce, feePair(fees).max, gas, to ?? Buffer.alloc(0), value, data]
}

function feeMarketFields(tx: UnsignedTransaction): Rlp[] {
  const { chainId, nonce, gas, to, value, data, authorizations = [] } = tx
  const { max, priority } = feePair(tx.fees)
  const fields = [chainId, nonce, priority, max, gas, to ?? Buffer.alloc(0), value, data, []]
  return authorizations.length === 0 ? fields : [...fields, authorizations.map(encodeAuthorization)]
}

const typed = ({ authorizations = [] }: UnsignedTransaction, fields: Rlp[]): Buffer =>
  Buffer.concat([Buffer.of(authorizations.length === 0 ? 0x02 : 0x04), encodeRlp(fields)])

/** Removes leading zeros: r and s are numbers, and RLP encodes numbers without them. */
function unpad(bytes: Uint8Array): Uint8Array {
  const start = bytes.findIndex((byte) => byte !== 0)
  return start === -1 ? bytes.subarray(bytes.length) : bytes.subarray(start)
}
