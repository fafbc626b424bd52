import type { Selectable } from 'kysely'
import type { AbiErrorItem, AbiFunction } from '../abi/parse.ts'
import type { Fees } from '../chain/fees.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import { fromWord, toWord } from '../store/bytes.ts'
import type { OuterAuthorization } from '../store/column-values.ts'
import type { Database } from '../store/rows.ts'

/** A write as the caller requested it. `to` and `data` are lower-case hex; `value` is wei. */
export type Intent = {
  to: Hex
  data: Hex
  value: bigint
  /** gas units: the caller's own limit; if absent, the service estimates one */
  gas?: bigint
  /** the caller's ABI text, stored to explain a revert later; empty without an ABI */
  abi: string
  /** null without an ABI */
  fn: AbiFunction | null
  errors: AbiErrorItem[]
}

/** Gas limit (gas units) and fees (wei per gas) of a transaction. */
export type Terms = { gas: bigint; fees: Fees }

/** Signed bytes, with the gas limit and fees that they were signed with. */
export type Attempt = Terms & { raw: Hex; hash: Hex; isCancel: boolean }

/** An intent with a nonce, and with the gas limit and fees to sign first. */
export type Bound = Terms & {
  id: string
  accountId: string
  chainId: number
  from: Hex
  nonce: number
  to: Hex
  value: bigint
  data: Hex
  /** SHA-256 of the request, if the id was derived from its idempotency key */
  requestHash: Uint8Array | null
  /** the caller's own text */
  reference: string | null
  /** accounts that delegate in a sponsor's transaction that includes operations; null for any other transaction */
  authorizations?: OuterAuthorization[] | null
}

export type TransactionRow = Selectable<Database['transactions']>
export type AttemptRow = Selectable<Database['attempts']>

export function toBound(row: TransactionRow): Bound {
  return {
    id: row.id,
    accountId: row.account_id,
    chainId: row.chain_id,
    from: toHex(row.sender),
    nonce: row.nonce,
    to: toHex(row.target),
    value: fromWord(row.value),
    data: toHex(row.data),
    gas: BigInt(row.gas_limit),
    fees: readFees(row),
    requestHash: row.request_hash,
    reference: row.reference,
    authorizations: row.authorizations,
  }
}

type FeeColumns = { max_fee: Uint8Array; max_priority_fee: Uint8Array | null }

export function readFees({ max_fee, max_priority_fee }: FeeColumns): Fees {
  if (max_priority_fee === null) return { type: 'legacy', gasPrice: fromWord(max_fee) }
  return { type: 'eip1559', maxFeePerGas: fromWord(max_fee), maxPriorityFeePerGas: fromWord(max_priority_fee) }
}

export function writeFees(fees: Fees): { max_fee: Buffer; max_priority_fee: Buffer | null } {
  if (fees.type === 'legacy') return { max_fee: toWord(fees.gasPrice), max_priority_fee: null }
  return { max_fee: toWord(fees.maxFeePerGas), max_priority_fee: toWord(fees.maxPriorityFeePerGas) }
}

/** Returns the fee columns as hexadecimal digits, for rows that are passed as JSON. */
export function feeDigits(fees: Fees): { max_fee: string; max_priority_fee: string | null } {
  if (fees.type === 'legacy') return { max_fee: wordDigits(fees.gasPrice), max_priority_fee: null }
  return { max_fee: wordDigits(fees.maxFeePerGas), max_priority_fee: wordDigits(fees.maxPriorityFeePerGas) }
}
