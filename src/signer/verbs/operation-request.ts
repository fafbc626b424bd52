import { GAS_PAIRS, type GasPair } from '../../gas/addresses.ts'
import { isDelegateName } from '../../ids.ts'
import type { GasOperation, OperationCall } from '../../gas/operation.ts'
import { readDispatch, type PackedOperation } from '../../gas/packed-operation.ts'
import {
  bad,
  readAccessToken,
  readAddress,
  readAmount,
  readApproval,
  readData,
  readFields,
  readInteger,
  readIntentId,
  readMarketFees,
  readRequestHash,
} from '../request.ts'
import type { MarketFees, UnsignedTransaction } from '../transaction.ts'
import {
  MAX_OPERATION_CALLS,
  type CancelOuterRequest,
  type CheckOperationRequest,
  type SignOperationRequest,
  type SignOuterRequest,
} from '../../signer-wire/wire.ts'

/** A parsed operation request: every field is present and in range, and there are no others. */
export type OperationOrder = {
  intentId: string
  accessToken: string
  /** the user's approval of exactly these calls; null if the request has none */
  approval: string | null
  operation: GasOperation
  /** false if a dry run names no sequence; `sequence` is then 0 */
  hasSequence: boolean
  requestHash: Buffer | null
  authorizationNonce: number | null
}

const OPERATION_FIELDS = new Set<string>([
  'intentId',
  'accessToken',
  'approval',
  'chainId',
  'from',
  'space',
  'sequence',
  'calls',
  'gasLimit',
  'deadline',
  'requestHash',
  'authorizationNonce',
  'delegate',
] satisfies (keyof SignOperationRequest)[])

const UINT32 = 2n ** 32n
const UINT96 = 2n ** 96n
const UINT256 = 2n ** 256n
const UINT64 = 2n ** 64n
const MAX_DEADLINE = 2 ** 40 - 1
/** maximum bytes of one call's data: the packed form stores the length in three bytes */
const MAX_CALL_DATA = 2 ** 24 - 1

/**
 * Parses an operation request. Coerces and ignores nothing, like `readSignRequest`. @throws bad_request  naming the
 * field
 */
export function readOperationRequest(request: unknown, { isDryRun }: { isDryRun: boolean }): OperationOrder {
  const fields = readFields(request, OPERATION_FIELDS)
  const { sequence, authorizationNonce } = fields
  const hasSequence = !isDryRun || sequence !== undefined
  return {
    intentId: readIntentId(fields.intentId),
    accessToken: readAccessToken(fields.accessToken),
    approval: readApproval(fields.approval),
    operation: {
      chainId: readInteger('chainId', fields.chainId, 1),
      account: readAddress('from', fields.from),
      dispatcher: readPair(fields.delegate).dispatcher,
      space: readAddress('space', fields.space),
      sequence: hasSequence ? readAmount('sequence', sequence, UINT96) : 0n,
      calls: readCalls(fields.calls),
      gasLimit: readGasLimit(fields.gasLimit),
      deadline: readDeadline(fields.deadline),
    },
    hasSequence,
    requestHash: readRequestHash('send', fields.requestHash),
    authorizationNonce: authorizationNonce === undefined ? null : readInteger('authorizationNonce', authorizationNonce, 0), // prettier-ignore
  }
}

/** The sponsor that would send an operation, the maximum price in wei per gas, and the maximum total cost in wei. */
export type CarriedOrder = { sponsor: Buffer; price: bigint; wei: bigint }

const CHECK_FIELDS = new Set<string>([...OPERATION_FIELDS, 'carried' satisfies keyof CheckOperationRequest])
const CARRIED_FIELDS = new Set<string>(['sponsor', 'price', 'wei'] satisfies (keyof CarriedOrder)[])

/**
 * Parses a `checkOperation` request. `carried` is null if the request omits it; then only the operation is checked.
 * @throws bad_request  naming the field
 */
export function readCheckRequest(request: unknown): { ask: OperationOrder; carried: CarriedOrder | null } {
  const { carried, ...asked } = readFields(request, CHECK_FIELDS)
  const ask = readOperationRequest(asked, { isDryRun: true })
  if (carried === undefined) return { ask, carried: null }
  const { sponsor, price, wei } = readFields(carried, CARRIED_FIELDS)
  const sums = { price: readAmount('price', price, UINT256), wei: readAmount('wei', wei, UINT256) }
  return { ask, carried: { sponsor: readAddress('sponsor', sponsor), ...sums } }
}

function readCalls(calls: unknown): OperationCall[] {
  if (!Array.isArray(calls) || calls.length === 0 || calls.length > MAX_OPERATION_CALLS)
    throw bad(`calls is not a list of 1 to ${MAX_OPERATION_CALLS}`)
  return calls.map((call) => {
    const { to, value, data } = readFields(call, new Set(['to', 'value', 'data']))
    const bytes = readData(data)
    if (bytes.length > MAX_CALL_DATA) throw bad('data is too long')
    return { to: readAddress('to', to), value: readAmount('value', value, UINT256), data: bytes }
  })
}

/** Returns the dispatcher and delegate of a name; the default is the pair of this project. */
function readPair(name: unknown): GasPair {
  if (name === undefined) return GAS_PAIRS.chatelaine
  if (typeof name !== 'string' || !isDelegateName(name)) throw bad('delegate is not a known delegate contract')
  return GAS_PAIRS[name]
}

function readGasLimit(text: unknown): number {
  const gasLimit = Number(readAmount('gasLimit', text, UINT32))
  if (gasLimit === 0) throw bad('gasLimit is 0')
  return gasLimit
}

function readDeadline(value: unknown): number {
  const deadline = readInteger('deadline', value, 1)
  if (deadline > MAX_DEADLINE) throw bad('deadline is out of range')
  return deadline
}

/** A parsed request for a sponsor transaction. The caller adds `tx.authorizations` from the ledger. */
export type OuterOrder = {
  intentId: string
  kind: SignOuterRequest['kind']
  tx: UnsignedTransaction & { to: Buffer; fees: MarketFees }
  space: Buffer
  operations: PackedOperation[]
  delegations: { account: Buffer; nonce: number }[]
}

const OUTER_FIELDS = new Set<string>([
  'intentId',
  'chainId',
  'from',
  'nonce',
  'data',
  'gas',
  'maxFeePerGas',
  'maxPriorityFeePerGas',
  'authorizations',
  'kind',
  'delegate',
] satisfies (keyof SignOuterRequest)[])

/** Maximum operations per transaction; more bring no measurable gain (docs/reference/gas-contracts.md). */
const MAX_OPERATIONS = 150

/** Parses a `signOuter` request. @throws bad_request  naming the field */
export function readOuterRequest(request: unknown): OuterOrder {
  const fields = readFields(request, OUTER_FIELDS)
  const { kind } = fields
  if (kind !== 'send' && kind !== 'replace') throw bad('kind is not send or replace')
  const data = readData(fields.data)
  const dispatch = readDispatch(data)
  if (dispatch === null) throw bad('data is not calldata of the dispatcher, or has trailing bytes')
  const { space, operations } = dispatch
  if (operations.length > MAX_OPERATIONS) throw bad(`data has more than ${MAX_OPERATIONS} operations`)
  if (new Set(operations.map(({ sequence }) => sequence)).size < operations.length)
    throw bad('data includes an operation twice')
  const fees = readMarketFees(fields)
  return {
    intentId: readIntentId(fields.intentId),
    kind,
    tx: {
      chainId: readInteger('chainId', fields.chainId, 1),
      from: readAddress('from', fields.from),
      nonce: readInteger('nonce', fields.nonce, 0),
      to: readPair(fields.delegate).dispatcher,
      value: 0n,
      data,
      gas: readAmount('gas', fields.gas, UINT64),
      fees,
    },
    space,
    operations,
    delegations: readDelegations(fields.authorizations, operations),
  }
}

/**
 * A parsed request to cancel a sponsor transaction. The ledger determines which operations that transaction includes.
 */
export type CancelOuterOrder = {
  intentId: string
  accessToken: string | null
  chainId: number
  from: Buffer
  nonce: number
  gas: bigint
  fees: MarketFees
  sequences: bigint[]
  /** parsed by `readDelegations` once the operations of the transaction are known */
  authorizations: unknown
}

const CANCEL_FIELDS = new Set<string>([
  'intentId',
  'accessToken',
  'chainId',
  'from',
  'nonce',
  'gas',
  'maxFeePerGas',
  'maxPriorityFeePerGas',
  'sequences',
  'authorizations',
] satisfies (keyof CancelOuterRequest)[])

/** Parses a `cancelOuter` request. @throws bad_request  naming the field */
export function readCancelOuterRequest(request: unknown): CancelOuterOrder {
  const fields = readFields(request, CANCEL_FIELDS)
  const { accessToken, sequences, authorizations } = fields
  if (!Array.isArray(sequences) || sequences.length > MAX_OPERATIONS)
    throw bad(`sequences is not a list of at most ${MAX_OPERATIONS}`)
  const numbers = sequences.map((each) => readAmount('sequences', each, UINT96))
  if (new Set(numbers).size < numbers.length) throw bad('sequences names a sequence twice')
  return {
    intentId: readIntentId(fields.intentId),
    accessToken: accessToken === undefined ? null : readAccessToken(accessToken),
    chainId: readInteger('chainId', fields.chainId, 1),
    from: readAddress('from', fields.from),
    nonce: readInteger('nonce', fields.nonce, 0),
    gas: readAmount('gas', fields.gas, UINT64),
    fees: readMarketFees(fields),
    sequences: numbers,
    authorizations,
  }
}

/**
 * Parses the authorizations of a transaction. Each must be of an account with an operation in it, and each account may
 * appear once, because the sponsor would pay for any other authorization without use.
 * @throws bad_request
 */
export function readDelegations(list: unknown, operations: readonly PackedOperation[]): OuterOrder['delegations'] {
  if (!Array.isArray(list)) throw bad('authorizations is not a list')
  const accounts = new Set(operations.map(({ account }) => account.toString('hex')))
  return list.map((each) => {
    const { from, nonce } = readFields(each, new Set(['from', 'nonce']))
    const account = readAddress('from', from)
    if (!accounts.delete(account.toString('hex')))
      throw bad('authorizations names an account twice, or an account without an operation in data')
    return { account, nonce: readInteger('nonce', nonce, 0) }
  })
}
