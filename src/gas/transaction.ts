import assert from 'node:assert/strict'
import { keccak } from '../keccak.ts'
import { encodeRlp, type Rlp } from '../rlp.ts'
import type { SignedAuthorization } from './authorization.ts'
import type { AccountSignature } from './operation.ts'

/**
 * A transaction of a sponsor or a deployer: type 4 if it has authorizations, otherwise type 2. Amounts in wei and gas
 * units.
 */
export type SponsorTransaction = {
  chainId: number
  nonce: number
  maxPriorityFeePerGas: bigint
  maxFeePerGas: bigint
  gas: bigint
  to: Buffer
  value: bigint
  data: Buffer
  authorizations: readonly SignedAuthorization[]
}

/** Computes the 32 bytes that the sponsor signs. Source: EIP-1559, EIP-7702 */
export const transactionDigest = (transaction: SponsorTransaction): Buffer =>
  keccak(typed(transaction, fieldsOf(transaction)))

/** Assembles the signed transaction. Returns the bytes for a node, and their hash. */
export function assembleTransaction(
  transaction: SponsorTransaction,
  signature: AccountSignature,
): { raw: Buffer; hash: Buffer } {
  const raw = typed(transaction, [...fieldsOf(transaction), ...pointOf(signature)])
  return { raw, hash: keccak(raw) }
}

function fieldsOf(transaction: SponsorTransaction): Rlp[] {
  const { chainId, nonce, maxPriorityFeePerGas, maxFeePerGas, gas, to, value, data, authorizations } = transaction
  assert.ok(chainId > 0 && to.length === 20)
  const fields = [chainId, nonce, maxPriorityFeePerGas, maxFeePerGas, gas, to, value, data, []]
  return authorizations.length === 0 ? fields : [...fields, authorizations.map(encodeAuthorization)]
}

/** Encodes an authorization as in a transaction of type 4. */
export const encodeAuthorization = ({ chainId, address, nonce, ...signature }: SignedAuthorization): Rlp => [
  chainId,
  address,
  nonce,
  ...pointOf(signature),
]

const typed = ({ authorizations }: SponsorTransaction, fields: Rlp[]): Buffer =>
  Buffer.concat([Buffer.of(authorizations.length === 0 ? 2 : 4), encodeRlp(fields)])

/** r and s are numbers, which RLP encodes without leading zeros. */
const pointOf = ({ recovery, r, s }: AccountSignature): Rlp[] => [recovery, numberIn(r), numberIn(s)]
const numberIn = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
