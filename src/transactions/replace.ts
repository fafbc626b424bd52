import type { App } from '../app.ts'
import { currentFees, nextFee, type Fees } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import { mapChainError } from '../chain/rpc.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { SignerRefused } from '../signer/client.ts'
import { retrying } from '../store/db.ts'
import { toHex } from '../store/bytes.ts'
import { broadcast, type Sent } from './broadcast.ts'
import { gasStrategy } from './gas.ts'
import { readFees, type AttemptRow, type Bound, type Attempt } from './intent.ts'
import { LEAST_GAS, MOST_GAS, readGas } from './limits.ts'
import { adopt } from './recall.ts'
import { reach } from './steps.ts'
import { storeReplacement } from './store.ts'

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

export const toAttempt = (row: AttemptRow): Attempt => ({
  raw: toHex(row.raw),
  hash: toHex(row.hash),
  gas: BigInt(row.gas_limit),
  fees: readFees(row),
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
): Promise<{ hash: Hex; sent: Sent }> {
  const attempts = await readAttempts(app, bound)
  const before = toAttempt(attempts.find(({ is_cancel }) => is_cancel) ?? attempts[0]!)
  const fees = nextFee(dearest(attempts), await marketOf(chain), chain.feeCapWei)
  return signAndSend(app, chain, bound, {
    ...options,
    kind: before.isCancel ? 'cancel' : 'replace',
    gas: before.gas,
    fees,
  })
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
): Promise<{ hash: Hex; sent: Sent }> {
  const attempts = await readAttempts(app, bound)
  const fees = nextFee(dearest(attempts), await marketOf(chain), chain.feeCapWei)
  return signAndSend(app, chain, bound, { ...options, kind: 'cancel', gas: await cancelGas(chain, bound.from), fees })
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
const priceOf = (fees: Fees): bigint => (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas)

/** What a transfer of nothing to oneself takes here: 21,000 on most networks, more on some and for delegated accounts. */
export async function cancelGas({ rpc }: Chain, from: Hex): Promise<bigint> {
  try {
    const gas = readGas(await rpc.call('eth_estimateGas', [{ from, to: from, value: '0x0' }, 'latest']))
    const limit = gas > LEAST_GAS ? (gas * 5n) / 4n : LEAST_GAS
    return limit > MOST_GAS ? LEAST_GAS : limit
  } catch {
    // A node that is away must not keep a nonce open; if 21,000 is too little here, the node refuses and we ask again.
    return LEAST_GAS
  }
}

type Request = { kind: 'replace' | 'cancel'; gas: bigint; fees: Fees; accessToken?: string }

async function signAndSend(app: App, chain: Chain, bound: Bound, request: Request): Promise<{ hash: Hex; sent: Sent }> {
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

async function signOrAdopt(app: App, chain: Chain, bound: Bound, request: Request): Promise<Attempt> {
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
      throw new AppError('overloaded', 'The fee of this transaction was raised at the same moment. Repeat.', {
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
