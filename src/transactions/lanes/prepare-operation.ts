import { checksumAddress } from '../../digits.ts'
import { decodeRevert } from '../../abi/reverts.ts'
import type { AbiErrorItem } from '../../abi/parse.ts'
import { hasCode } from '../../chain/code.ts'
import { currentFees } from '../../chain/current-fees.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { readBytes } from '../../chain/rpc/answers.ts'
import { revertDataOf } from '../../chain/rpc/errors.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { OperationCall } from '../../gas/operation.ts'
import { readRehearsal, rehearsalCode } from '../../gas/rehearse.ts'
import type { DelegateName, Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { mostPackedGas } from './data-gas.ts'
import { contractsOf, delegationNonce } from '../sponsors/delegation.ts'
import { insufficientFunds } from './funds.ts'
import type { Intent } from '../intent.ts'
import { unstarved, type SimulatedCall } from './inner-gas.ts'
import { invalidGas, readGas } from './limits.ts'
import { operationGas } from './operation-gas.ts'
import { budgetNow, callOf } from './prepare.ts'

/** Largest share of a transaction's gas for one operation, so that other operations fit in as well. */
const SHARE_OF_PACKED = { of: 5n, in: 6n }

export type PreparedOperation = {
  /** the account code that the signature is for */
  delegate: DelegateName
  calls: OperationCall[]
  /** gas limit that the account signs, gas units */
  gas: bigint
  fees: Fees
  authorizationNonce: number | null
}

/** Converts intents to calls of an operation. */
export const callsOf = (intents: readonly Intent[]): OperationCall[] =>
  intents.map(({ to, value, data }) => ({ to: fromHex(to), value, data: fromHex(data) }))

/**
 * Simulates an account's calls as sent by a sponsor, and determines their gas. The account needs no code. It needs
 * funds only for the values, which it pays itself.
 * @param sponsor  address that the called contracts see as the origin
 * @throws no_contract, execution_reverted, invalid_gas, insufficient_funds, fee_cap_reached, policy_denied,
 *   chain_unavailable, chain_timeout
 */
export async function prepareOperation(
  chain: Chain,
  account: Hex,
  intents: readonly Intent[],
  sponsor: Hex,
): Promise<PreparedOperation> {
  refuseOwn(chain, account, intents)
  const calls = callsOf(intents)
  const place = { chain, account, sponsor, calls }
  const [estimated, fees, authorizationNonce, code] = await Promise.allSettled([
    estimate(place, intents),
    currentFees(chain),
    delegationNonce(chain, account),
    findCodeless(chain, intents),
  ])
  for (const other of [fees, authorizationNonce, code])
    if (other.status === 'rejected') throw mapChainError(other.reason)
  const codeless = valueOf(code)
  if (codeless !== null) throw noContract(codeless, intents.length)
  if (estimated.status === 'rejected') {
    await refuseShort(chain, account, intents)
    throw (await sentByItself(chain, account, intents, estimated.reason)) ?? mapChainError(estimated.reason)
  }
  const { name: delegate } = contractsOf(chain)
  const gas = gasOf(chain, estimated.value, intents, { calls, delegate })
  return { delegate, calls, gas, fees: valueOf(fees), authorizationNonce: valueOf(authorizationNonce) }
}

/**
 * Rejects a call of the account to itself: the code that it delegates to would accept the call as a command of the
 * owner. The signer refuses such calls as well. For Calibur, the zero address means the account.
 * @throws policy_denied
 */
function refuseOwn(chain: Chain, account: Hex, intents: readonly Intent[]): void {
  const isCalibur = contractsOf(chain).name === 'calibur'
  const index = intents.findIndex(({ to, data }) => (to === account && data !== '0x') || (isCalibur && to === NOBODY))
  if (index < 0) return
  const detail =
    'A write cannot call the account itself, because the delegated code would treat the call as an order of its owner. Nothing was sent.'
  throw new AppError('policy_denied', detail, {
    errors: [{ pointer: intents.length === 1 ? '/address' : `/calls/${index}/address`, code: 'own_account', detail }],
  })
}

const NOBODY: Hex = `0x${'00'.repeat(20)}`

/**
 * Returns the result that the last call would have now.
 * @throws as `prepareOperation`
 */
export async function callOperation(
  chain: Chain,
  account: Hex,
  intents: readonly Intent[],
  sponsor: Hex,
): Promise<Hex> {
  const calls = callsOf(intents)
  try {
    const answer = await chain.rpc.call('eth_call', rehearsal({ account, sponsor, calls }, 'latest'))
    return readBytes(answer, 'result of a call')
  } catch (error) {
    throw refusalOf(error, intents) ?? mapChainError(error)
  }
}

/** gas units added to the estimate of an operation */
const ADDED_GAS = 8_000n

type Rehearsing = { chain: Chain; account: Hex; sponsor: Hex; calls: OperationCall[] }

const rehearsal = (
  { account, sponsor, calls }: Omit<Rehearsing, 'chain'>,
  at: 'latest' | 'pending',
): [SimulatedCall, string, object] => [
  { from: sponsor, to: account, data: '0x' as Hex },
  at,
  { [account]: { code: toHex(rehearsalCode(calls)) } },
]

/**
 * Estimates at the newest block. If that reverts, estimates at the pending state, because the operation may depend on a
 * write that is not mined yet, as in `seeOwnPending`.
 */
async function estimate({ chain, ...place }: Rehearsing, intents: readonly Intent[]): Promise<bigint> {
  const ask = async (at: 'latest' | 'pending') => readGas(await chain.rpc.call('eth_estimateGas', rehearsal(place, at)))
  try {
    const estimate = await ask('latest')
    const functions = intents.map(({ to, data }) => `${to}${data.slice(2, 10)}`).join()
    const isOwn = intents.length === 1 && intents[0]!.gas !== undefined
    if (isOwn || intents.every(({ data }) => data === '0x')) return estimate
    const [call, , overrides] = rehearsal(place, 'latest')
    return await unstarved(chain, call, { estimate, limit: estimate + ADDED_GAS, functions, overrides })
  } catch (error) {
    if (revertDataOf(error) === undefined) throw error
    try {
      return await ask('pending')
    } catch {
      throw refusalOf(error, intents) ?? error
    }
  }
}

/**
 * Returns the gas limit that the account signs. A caller's own limit applies to the calls, as for a transaction of the
 * account itself.
 */
function gasOf(
  chain: Chain,
  estimated: bigint,
  intents: readonly Intent[],
  operation: Pick<PreparedOperation, 'calls' | 'delegate'>,
): bigint {
  const own = intents.length === 1 ? intents[0]!.gas : undefined
  if (own !== undefined && own < estimated)
    throw invalidGas('too_low', `The gas limit is too low: at least ${estimated} is needed.`)
  const gas = operationGas(own ?? estimated + ADDED_GAS, operation)
  const most = (mostPackedGas(chain) * SHARE_OF_PACKED.of) / SHARE_OF_PACKED.in
  if (gas > most)
    throw invalidGas(
      'out_of_range',
      `The write needs ${gas} gas, and a sponsor pays for at most ${most} gas in one write.`,
    )
  return gas
}

/** Returns the error for a simulation that reverted; null for any other failure. */
function refusalOf(error: unknown, intents: readonly Intent[]): AppError | null {
  const said = revertDataOf(error)
  if (said === undefined) return null
  const { index, data } = readRehearsal(fromHex(said ?? '0x'))
  const intent = intents[index]
  const revert = decodeRevert(said === null ? null : toHex(data), errorsOf(intent), intent)
  const which = intents.length === 1 ? '' : `Call ${index}: `
  return new AppError('execution_reverted', `${which}${revert.reason}`, {
    revert,
    cause: error,
    ...(intents.length === 1
      ? {}
      : { errors: [{ pointer: `/calls/${index}`, code: 'reverted', detail: revert.reason }] }),
  })
}

/**
 * Explains a call that reverts only because a sponsor sends it. Checks whether the account's own transaction would
 * succeed, for the first call only, because later calls depend on earlier ones.
 * @returns null if that transaction reverts as well, or if its result is unknown
 */
async function sentByItself(
  chain: Chain,
  account: Hex,
  intents: readonly Intent[],
  error: unknown,
): Promise<AppError | null> {
  if (!(error instanceof AppError) || error.code !== 'execution_reverted') return null
  const isFirst = intents.length === 1 || error.errors?.[0]?.pointer === '/calls/0'
  if (!isFirst) return null
  const { to, data, value } = intents[0]!
  try {
    await chain.rpc.call('eth_call', [callOf(account, { to, data, value }), 'latest'])
  } catch {
    return null
  }
  const detail = `The same write would not revert if the account sent it directly. On this network a sponsor sends writes. The contract checks the origin of a transaction, or the code of its caller. The operator can allow direct writes to this contract: \`chatelaine network set ${chain.name} --topup-contract ${checksumAddress(to)}\``
  return new AppError('execution_reverted', `${error.message} ${detail}`, {
    ...(error.revert === undefined ? {} : { revert: error.revert }),
    cause: error,
    errors: [{ ...error.errors?.[0], code: 'sent_by_sponsor', detail }],
  })
}
const errorsOf = (intent: Intent | undefined): AbiErrorItem[] => intent?.errors ?? []

/** Returns the index of a call with data to an address without code; null if there is no such call. */
async function findCodeless(chain: Chain, intents: readonly Intent[]): Promise<number | null> {
  const there = await Promise.all(intents.map(async ({ to, data }) => data === '0x' || hasCode(chain, to)))
  const index = there.indexOf(false)
  return index < 0 ? null : index
}

const noContract = (index: number, many: number): AppError =>
  new AppError(
    'no_contract',
    'This address has no code on the network. Nothing was sent. Check the address and the network.',
    {
      errors: [{ pointer: many === 1 ? '/address' : `/calls/${index}/address`, code: 'no_code', detail: 'The address has no code.' }], // prettier-ignore
    },
  )

/**
 * Rejects calls whose values the account cannot pay.
 * @throws insufficient_funds, chain_unavailable, chain_timeout
 */
async function refuseShort(chain: Chain, account: Hex, intents: readonly Intent[]): Promise<void> {
  const cost = intents.reduce((sum, { value }) => sum + value, 0n)
  if (cost === 0n) return
  const { available } = await budgetNow(chain, account)
  if (available < cost) throw insufficientFunds(account, { cost, reserved: 0n, available })
}

function valueOf<T>(settled: PromiseSettledResult<T>): T {
  if (settled.status === 'rejected') throw settled.reason
  return settled.value
}
