import type { Selectable } from 'kysely'
import { readCalls } from '../gas/dispatch.ts'
import type { OperationCall } from '../gas/operation.ts'
import type { DelegateName, Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Database } from '../store/rows.ts'

export type OperationRow = Selectable<Database['operations']>

/**
 * The calls of a user's account that a sponsor sends, with an id that the dispatcher uses up at most once. Hex is
 * lower-case.
 */
export type Operation = {
  id: string
  accountId: string
  clientId: string
  chainId: number
  from: Hex
  /** the account code that the signature is for */
  delegate: DelegateName
  space: Hex
  /** number within the space */
  sequence: number
  /** executed in this order, all or none */
  calls: OperationCall[]
  /** gas units for everything that the account's code does */
  gas: bigint
  /** last second in which it can be executed, Unix time */
  deadline: number
  /** nonce of the account's EIP-7702 authorization that is sent along; null if the account already delegates */
  authorizationNonce: number | null
  requestHash: Uint8Array | null
  /** the caller's own text; it is not signed */
  reference: string | null
}

export const toOperation = (row: OperationRow): Operation => ({
  id: row.id,
  accountId: row.account_id,
  clientId: row.client_id,
  chainId: row.chain_id,
  from: toHex(row.sender),
  delegate: row.delegate,
  space: toHex(row.space),
  sequence: row.sequence,
  calls: readCalls(row.calls),
  gas: BigInt(row.gas_limit),
  deadline: row.deadline,
  authorizationNonce: row.authorization_nonce,
  requestHash: row.request_hash,
  reference: row.reference,
})

/** Returns the 32-byte id of an operation in the dispatcher. */
export const dispatcherId = ({ space, sequence }: Pick<Operation, 'space' | 'sequence'>): Hex =>
  `${space}${sequence.toString(16).padStart(24, '0')}`
