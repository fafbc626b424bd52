import type { Selectable } from 'kysely'
import { readCalls } from '../gas/dispatch.ts'
import type { OperationCall } from '../gas/operation.ts'
import type { DelegateName, Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Database } from '../store/rows.ts'

export type OperationRow = Selectable<Database['operations']>

/** What a person's account does when a sponsor sends it, by an id of the dispatcher that is used up at most once. Hex is lower-case. */
export type Operation = {
  id: string
  accountId: string
  clientId: string
  chainId: number
  from: Hex
  /** the code for which it is signed */
  delegate: DelegateName
  space: Hex
  /** its number in the space */
  sequence: number
  /** in this order, all or none */
  calls: OperationCall[]
  /** gas units, for all that the account's code does */
  gas: bigint
  /** the last second in which it can be done, since 1970 */
  deadline: number
  /** the nonce by which the account delegates with it; null: it did before */
  authorizationNonce: number | null
  requestHash: Uint8Array | null
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
})

/** The id in the dispatcher: 32 bytes. */
export const dispatcherId = ({ space, sequence }: Pick<Operation, 'space' | 'sequence'>): Hex =>
  `${space}${sequence.toString(16).padStart(24, '0')}`
