import type { App } from '../../app.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import { nextFee, type Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import { mapChainError, RpcError } from '../../chain/rpc/rpc.ts'
import { readRaw } from '../../follower/transaction.ts'
import { readCancel } from '../../gas/dispatch.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { BroadcastResult } from './broadcast.ts'
import { cancelGas, cancelOuterGas, type UsedUp } from './cancel-gas.ts'
import { readFees, type AttemptRow, type Bound, type Attempt, type Terms } from '../intent.ts'
import { readGas } from './limits.ts'
import { fromHex, toHex } from '../../hex.ts'
import { delegateOf } from '../sponsors/delegation.ts'
import { marketOf } from './market.ts'
import { callOf, limitOf } from './prepare.ts'
import type { ReplaceRequest } from './sign.ts'
import { ledgerAttempts, toAttempt } from '../recovery/reconcile.ts'
import { replacement } from './steps.ts'
import { isRejected } from '../recovery/trouble.ts'

/** An attempt without its hash, and without its bytes if those were dropped. */
export type SignedOffer = Omit<Attempt, 'raw' | 'hash'> & { raw: Hex | null }

export const signedOf = (row: AttemptRow): SignedOffer => ({
  gas: BigInt(row.gas_limit),
  fees: readFees(row),
  isCancel: row.is_cancel,
  raw: row.raw === null ? null : toHex(row.raw),
})

/**
 * Reads the attempts from the signer's ledger, newest first: an attacker with write access to the database must not
 * control which fees are to be outbid.
 * @throws signer_unavailable
 */
async function readSigned(app: App, { id }: Bound): Promise<SignedOffer[]> {
  return (await ledgerAttempts(app, { intentId: id })).map(toAttempt)
}

/**
 * Signs, stores and sends the same effect at fees at least 12.5 % higher. If a cancellation was signed already,
 * replaces the cancellation: the ledger no longer signs the original.
 * @param options.relieve  called before anything is signed, with the additional cost
 * @returns the node's response to the new bytes, and their hash
 * @throws fee_cap_reached, conflict, signer_unavailable, chain_unavailable, chain_timeout, database_unavailable
 */
export async function raiseFee(
  app: App,
  chain: Chain,
  bound: Bound,
  { relieve, ...options }: { accessToken?: string; relieve?: (more: Terms) => Promise<void> } = {},
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  const [attempts, wasRejected] = await Promise.all([readSigned(app, bound), isRejected(app.db, bound)])
  if (attempts.length === 0)
    throw new AppError(
      'conflict',
      'The signer has no signed transaction that can be replaced. This request had no effect. Retry.',
    )
  const { offered, ...next } = await nextAttempt(chain, bound, attempts, { wasRejected })
  const fees = nextFee(offered, await marketOf(chain), chain.feeCapWei)
  await relieve?.({ gas: next.gas, fees: { type: 'legacy', gasPrice: priceOf(fees) - priceOf(offered) } })
  return sendReplacement(app, chain, bound, { ...options, ...next, fees })
}

/**
 * Returns the next attempt to sign for a pending transaction, and the fees that it has to outbid.
 * The gas limit remains the same, with two exceptions: it is estimated again for a cancellation, and after nodes
 * rejected the transaction. The gas may have changed if it depends on another chain's prices, or if the account has
 * code now.
 * @throws chain_unavailable, chain_timeout
 */
export async function nextAttempt(
  chain: Chain,
  bound: Bound,
  attempts: SignedOffer[],
  { wasRejected }: { wasRejected: boolean },
): Promise<{ kind: 'replace' | 'cancel'; gas: bigint; offered: Fees; usesUp?: UsedUp }> {
  const before = attempts.find(({ isCancel }) => isCancel) ?? attempts[0]!
  const kind = before.isCancel ? 'cancel' : 'replace'
  const usesUp = before.isCancel ? usedUpBy(bound, attempts) : undefined
  const gas = before.isCancel || wasRejected ? await gasAgain(chain, bound, before, usesUp) : before.gas
  return { kind, gas, offered: dearest(attempts), ...(usesUp === undefined ? {} : { usesUp }) }
}

/**
 * Returns the operation numbers that the nonce's cancellation uses up, read from its bytes: the signer never signs a
 * different cancellation.
 */
function usedUpBy({ authorizations }: Bound, attempts: SignedOffer[]): UsedUp | undefined {
  if (authorizations === undefined || authorizations === null) return undefined
  const cancel = attempts.find(({ isCancel, raw }) => isCancel && raw !== null)
  if (cancel === undefined) return undefined
  const { to, data } = readRaw(fromHex(cancel.raw!))
  return delegateOf(to) !== null ? readCancel(data)?.map(Number) : undefined
}

/**
 * Estimates the gas again. Returns at least the last limit: the ledger has already returned bytes with that limit, and
 * unused gas is not paid for.
 */
async function gasAgain(
  chain: Chain,
  bound: Bound,
  before: Pick<Attempt, 'gas' | 'isCancel'>,
  usesUp: UsedUp | undefined,
): Promise<bigint> {
  try {
    const now = before.isCancel ? await gasOfCancel(chain, bound, usesUp) : await effectGas(chain, bound)
    return larger(now, before.gas)
  } catch (error) {
    // A node does not estimate an effect that reverts now. If the node is unavailable, the error is thrown.
    if (error instanceof RpcError || error instanceof InvalidResponse) return before.gas
    throw mapChainError(error)
  }
}

const gasOfCancel = (chain: Chain, bound: Bound, usesUp: UsedUp | undefined): Promise<bigint> =>
  usesUp === undefined ? cancelGas(chain, bound.from) : cancelOuterGas(chain, bound, usesUp)

async function effectGas({ rpc }: Chain, { from, to, data, value }: Bound): Promise<bigint> {
  const call = callOf(from, { to, data, value })
  return limitOf(readGas(await rpc.call('eth_estimateGas', [call, 'latest'])), {})
}

/**
 * Signs, stores and sends a cancellation: an empty transfer to oneself with the same nonce, at fees that outbid every
 * attempt so far. If accounts delegate in the cancelled transaction, they also delegate in the cancellation, because
 * later transactions may rely on the delegation.
 * @param options.usesUp  numbers of its operations, all of the user whose token it is
 * @throws as `raiseFee`
 */
export async function sendCancel(
  app: App,
  chain: Chain,
  bound: Bound,
  options: { accessToken?: string; usesUp?: UsedUp } = {},
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  const attempts = await readSigned(app, bound)
  const delegates = (bound.authorizations?.length ?? 0) > 0
  const isCancelled = attempts.some(({ isCancel }) => isCancel)
  const usesUp = isCancelled ? usedUpBy(bound, attempts) : (options.usesUp ?? (delegates ? [] : undefined))
  const gas = await gasOfCancel(chain, bound, usesUp).catch((error: unknown) => {
    throw mapChainError(error)
  })
  const market = await marketOf(chain)
  const fees = attempts.length === 0 ? market : nextFee(dearest(attempts), market, chain.feeCapWei)
  const { accessToken } = options
  return sendReplacement(app, chain, bound, {
    kind: 'cancel',
    gas,
    fees,
    ...(accessToken === undefined ? {} : { accessToken }),
    ...(usesUp === undefined ? {} : { usesUp }),
  })
}

/** Returns the highest fees of all attempts, field by field: a replacement has to outbid every attempt. */
function dearest(attempts: SignedOffer[]): Fees {
  const offers = attempts.map(({ fees }) => fees)
  return offers.reduce((most, fees) => {
    if (most.type === 'legacy' || fees.type === 'legacy') return priceOf(fees) > priceOf(most) ? fees : most
    return {
      type: 'eip1559',
      maxFeePerGas: larger(most.maxFeePerGas, fees.maxFeePerGas),
      maxPriorityFeePerGas: larger(most.maxPriorityFeePerGas, fees.maxPriorityFeePerGas),
    }
  })
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const priceOf = (fees: Fees): bigint => (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas)

/**
 * Signs, stores and sends a replacement of a transaction.
 * @throws as `raiseFee`
 */
export async function sendReplacement(
  app: App,
  chain: Chain,
  bound: Bound,
  request: ReplaceRequest,
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  const attempt = await replacement.sign(app, chain, bound, request)
  await replacement.store(app, chain, bound, attempt)
  txReplaced(app, bound, attempt)
  const sent = await replacement.broadcast(app, chain, { id: bound.id, from: bound.from, ...attempt })
  return { hash: attempt.hash, sent }
}

/** Logs that a transaction has a new hash. */
function txReplaced({ telemetry }: App, { chainId, id, nonce }: Bound, { hash, isCancel }: Attempt): void {
  telemetry.log.info(isCancel ? 'transaction_cancelling' : 'fee_bumped', { chainId, id, nonce, hash })
}
