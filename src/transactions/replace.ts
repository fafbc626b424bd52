import type { App } from '../app.ts'
import { revertDataOf } from '../chain/rpc/errors.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { currentFees } from '../chain/current-fees.ts'
import { nextFee, type Fees } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError, RpcError } from '../chain/rpc/rpc.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { SignerRefused } from '../signer/client.ts'
import { retrying, type Db } from '../store/db.ts'
import { broadcast, type BroadcastResult } from './broadcast.ts'
import { gasStrategy } from './gas.ts'
import { readFees, type AttemptRow, type Bound, type Attempt } from './intent.ts'
import { MIN_GAS, MAX_GAS, readGas } from './limits.ts'
import { callOf, limitOf } from './prepare.ts'
import { adopt } from './recall.ts'
import { reach } from './crash-points.ts'
import { storeReplacement } from './store.ts'
import { isRejected } from './trouble.ts'
import { slot } from '../state.ts'

/** Every attempt of a transaction, newest first. */
export async function readAttempts({ db }: App, { chainId, id }: Pick<Bound, 'chainId' | 'id'>): Promise<AttemptRow[]> {
  return retrying(() =>
    db
      .selectFrom('attempts')
      .selectAll()
      .where('transaction_id', '=', id)
      .where('chain_id', '=', chainId)
      .orderBy('created_at', 'desc')
      .orderBy('max_fee', 'desc')
      .execute(),
  )
}

/** Every attempt of several, newest first, by transaction. */
export async function readAttemptsOf(db: Db, ids: string[]): Promise<Map<string, AttemptRow[]>> {
  if (ids.length === 0) return new Map()
  const attempts = await retrying(() =>
    db
      .selectFrom('attempts')
      .selectAll()
      .where('transaction_id', 'in', ids)
      .orderBy('created_at', 'desc')
      .orderBy('max_fee', 'desc')
      .execute(),
  )
  return Map.groupBy(attempts, ({ transaction_id }) => transaction_id)
}

const termsOf = (row: AttemptRow): Pick<Attempt, 'gas' | 'isCancel'> => ({
  gas: BigInt(row.gas_limit),
  isCancel: row.is_cancel,
})

/**
 * Signs, stores and sends the same effect at fees of at least 12.5 % more. Once a cancel was signed it is the cancel
 * that is raised: the ledger does not raise the original any more.
 * @returns what the node said of the new bytes, and their hash
 * @throws fee_cap_reached, signer_unavailable, chain_unavailable, chain_timeout, database_unavailable
 */
export async function raiseFee(
  app: App,
  chain: Chain,
  bound: Bound,
  options: { accessToken?: string } = {},
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  const [attempts, wasRejected] = await Promise.all([readAttempts(app, bound), isRejected(app.db, bound)])
  const { kind, gas, offered } = await nextAttempt(chain, bound, attempts, { wasRejected })
  const fees = nextFee(offered, await marketOf(chain), chain.feeCapWei)
  return sendReplacement(app, chain, bound, { ...options, kind, gas, fees })
}

/**
 * What is signed next for a transaction that waits, and what its fees have to outbid. The gas is that of before; for a
 * cancel, and where nodes rejected what there is, it is estimated again: what a transaction costs changes where a part of
 * it is the price of another chain, and an account may have got code since.
 * @throws chain_unavailable, chain_timeout
 */
export async function nextAttempt(
  chain: Chain,
  bound: Bound,
  attempts: AttemptRow[],
  { wasRejected }: { wasRejected: boolean },
): Promise<{ kind: 'replace' | 'cancel'; gas: bigint; offered: Fees }> {
  const before = termsOf(attempts.find(({ is_cancel }) => is_cancel) ?? attempts[0]!)
  const kind = before.isCancel ? 'cancel' : 'replace'
  const gas = before.isCancel || wasRejected ? await gasAgain(chain, bound, before) : before.gas
  return { kind, gas, offered: dearest(attempts) }
}

/** Never less than before: the ledger hands out those bytes already, and unused gas is not paid for. */
async function gasAgain(chain: Chain, bound: Bound, before: Pick<Attempt, 'gas' | 'isCancel'>): Promise<bigint> {
  try {
    const now = before.isCancel ? await cancelGas(chain, bound.from) : await effectGas(chain, bound)
    return larger(now, before.gas)
  } catch (error) {
    // Of an effect that reverts by now a node says no gas, and nonsense is none; a node that is away is asked again.
    if (error instanceof RpcError || error instanceof InvalidResponse) return before.gas
    throw mapChainError(error)
  }
}

async function effectGas({ rpc }: Chain, { from, to, data, value }: Bound): Promise<bigint> {
  const call = callOf(from, { to, data, value })
  return limitOf(readGas(await rpc.call('eth_estimateGas', [call, 'latest'])), {})
}

/**
 * Signs, stores and sends a cancel: the same nonce, nothing to oneself, at fees that outbid every attempt so far.
 * @throws as `raiseFee`
 */
export async function sendCancel(
  app: App,
  chain: Chain,
  bound: Bound,
  options: { accessToken?: string } = {},
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  const attempts = await readAttempts(app, bound)
  const gas = await cancelGas(chain, bound.from).catch((error: unknown) => {
    throw mapChainError(error)
  })
  const fees = nextFee(dearest(attempts), await marketOf(chain), chain.feeCapWei)
  return sendReplacement(app, chain, bound, { ...options, kind: 'cancel', gas, fees })
}

/** What blocks want now. @throws fee_cap_reached, chain_unavailable, chain_timeout */
export async function marketOf(chain: Chain): Promise<Fees> {
  try {
    return await currentFees(chain)
  } catch (error) {
    throw mapChainError(error)
  }
}

/** The highest of what attempts offered, field by field: a replacement has to outbid all of them. */
function dearest(attempts: AttemptRow[]): Fees {
  return attempts.map(readFees).reduce((most, fees) => {
    if (most.type === 'legacy' || fees.type === 'legacy') return priceOf(fees) > priceOf(most) ? fees : most
    return {
      type: 'eip1559',
      maxFeePerGas: larger(most.maxFeePerGas, fees.maxFeePerGas),
      maxPriorityFeePerGas: larger(most.maxPriorityFeePerGas, fees.maxPriorityFeePerGas),
    }
  })
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)
const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const priceOf = (fees: Fees): bigint => (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas)

/** whether a network's node has said that a transfer of nothing takes 21,000 */
const plain = slot('what a transfer of nothing takes', (_: Chain) => ({ isKnown: false }))

/**
 * What a transfer of nothing to oneself takes here: 21,000 on most networks, more on some and for delegated accounts. It
 * is not assumed: at less than it takes every node refuses the cancel, and the nonce stays open for good. Only where a
 * transfer is known to take 21,000 a node that is away, or talks nonsense, does not keep the nonce open.
 * @throws RpcError | RpcUnavailable
 */
export async function cancelGas(chain: Chain, from: Hex): Promise<bigint> {
  try {
    const gas = await estimateNothing(chain, from)
    if (gas === MIN_GAS) plain.of(chain).isKnown = true
    return gas > MIN_GAS ? smaller((gas * 5n) / 4n, MAX_GAS) : MIN_GAS
  } catch (error) {
    if (plain.of(chain).isKnown) return MIN_GAS
    throw error
  }
}

/** Of nothing to oneself; where the account's own code refuses it, of nothing to nobody: mined without success it uses the nonce, too. */
async function estimateNothing({ rpc }: Chain, from: Hex): Promise<bigint> {
  const estimate = async (to: Hex) => {
    const gas = readGas(await rpc.call('eth_estimateGas', [{ from, to, value: '0x0' }, 'latest']))
    if (gas > MAX_GAS) throw new InvalidResponse('the node’s gas estimate is above what a transaction may have')
    return gas
  }
  try {
    return await estimate(from)
  } catch (error) {
    if (revertDataOf(error) === undefined) throw error
    return estimate(NOBODY)
  }
}

/** an address that no code can be at: nobody knows its key, and no contract's address comes out so */
const NOBODY: Hex = '0x000000000000000000000000000000000000dead'

type ReplaceRequest = { kind: 'replace' | 'cancel'; gas: bigint; fees: Fees; accessToken?: string }

/** Signs, stores and sends other bytes for the nonce of a transaction. @throws as `raiseFee` */
export async function sendReplacement(
  app: App,
  chain: Chain,
  bound: Bound,
  request: ReplaceRequest,
): Promise<{ hash: Hex; sent: BroadcastResult }> {
  await reach(app, 'before-replace')
  const attempt = await signOrAdopt(app, chain, bound, request)
  await reach(app, 'after-replace-sign')
  await storeReplacement(app, chain, bound, attempt)
  await reach(app, 'after-replace-store')
  txReplaced(app, bound, attempt)
  const sent = await broadcast(app, chain, { id: bound.id, from: bound.from, ...attempt })
  await reach(app, 'after-replace-broadcast')
  return { hash: attempt.hash, sent }
}

async function signOrAdopt(app: App, chain: Chain, bound: Bound, request: ReplaceRequest): Promise<Attempt> {
  try {
    const { raw, hash, kind } = await gasStrategy(chain).replace(app, bound, request)
    return { raw, hash, gas: request.gas, fees: request.fees, isCancel: kind === 'cancel' }
  } catch (error) {
    const isBehind =
      error instanceof SignerRefused && ['replacement_underpriced', 'nonce_conflict'].includes(error.code)
    if (!isBehind) throw error
    // The ledger holds a newer attempt than our tables: signed before a crash, or beside us by another replica.
    const found = await adopt(app, chain, bound)
    if (found === null) throw error
    if (request.kind === 'cancel' && !found.newest.isCancel) {
      throw new AppError('conflict', 'The fee of this transaction was raised at the same moment. Retry.', {
        cause: error,
        retryAfter: 1,
      })
    }
    return found.newest
  }
}

/** Business event: a transaction has a new hash. */
function txReplaced({ telemetry }: App, { chainId, id, nonce }: Bound, { hash, isCancel }: Attempt): void {
  telemetry.log.info(isCancel ? 'transaction_cancelling' : 'transaction_raised', { chainId, id, nonce, hash })
}
