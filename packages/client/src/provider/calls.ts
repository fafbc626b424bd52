import { ClientError } from '../errors.ts'
import type { Hex, Transaction } from '../wire.ts'
import { invalidParams, ProviderError, unauthorized } from './errors.ts'
import type { WalletNetwork } from './network.ts'
import { addressOf, callOf, objectOf, quantityOf, toQuantity, type Call } from './params.ts'

/** maximum calls per batch, as in the API */
const MAX_CALLS = 20
const VERSION = '2.0.0'

type Written = { id: string }
/** Calls of a `wallet_sendCalls` (EIP-5792), by the id that it returned. */
export type SentCalls = Map<string, { network: WalletNetwork; transaction: string; isAtomic: boolean }>

/**
 * Sends calls: one as a transaction, several as one operation if a sponsor sends the account's writes.
 * @param find  returns the network of a chain id
 * @returns the id for `wallet_getCallsStatus`
 */
export async function sendCalls(
  params: readonly unknown[],
  { sent, find }: { sent: SentCalls; find: (chainId: number) => WalletNetwork | null },
): Promise<{ id: string }> {
  const request = objectOf(params[0], 'calls')
  const { version, chainId, from, calls, id, capabilities, atomicRequired } = request
  if (typeof version !== 'string') throw invalidParams('`version` is missing.')
  const network = find(Number(quantityOf(chainId, 'chainId')))
  if (network === null) throw new ProviderError(5710, 'This wallet does not serve that network.')
  refuseCapabilities(capabilities)
  if (!Array.isArray(calls) || calls.length === 0) throw invalidParams('`calls` must have at least one call.')
  if (calls.length > MAX_CALLS) throw new ProviderError(5740, `At most ${MAX_CALLS} calls.`)
  if (id !== undefined && (typeof id !== 'string' || id.length > 8_194)) throw invalidParams('`id` is not a text.')
  if (id !== undefined && sent.has(id)) throw new ProviderError(5720, 'These calls were sent before.')
  if (atomicRequired !== undefined && typeof atomicRequired !== 'boolean') throw invalidParams('`atomicRequired` is not true or false.') // prettier-ignore
  const made = calls.map((one): Call => {
    const { capabilities: own, ...call } = objectOf(one, 'call')
    refuseCapabilities(own)
    return callOf(call)
  })
  await assertAccount(network, from)
  const isAtomic = made.length > 1
  const transaction = isAtomic
    ? await network.requests.write('/v1/contracts/method/write/batch', { calls: made }, {}, (written: Written) => written) // prettier-ignore
    : await network.requests.write('/v1/transactions', made[0]!, {}, (written: Written) => written)
  const name = typeof id === 'string' ? id : transaction.id
  sent.set(name, { network, transaction: transaction.id, isAtomic })
  return { id: name }
}

/**
 * Checks that `from` is the account of the session. @throws ProviderError 4100  if there is no session, or its account
 * is another one
 */
export async function assertAccount(network: WalletNetwork, from: unknown): Promise<Hex> {
  const account = await network.account()
  if (account === null) throw unauthorized('Nobody is signed in.')
  if (from === undefined || from === null) return account
  if (addressOf(from, 'from').toLowerCase() !== account.toLowerCase())
    throw unauthorized('The account is not the one that is signed in.')
  return account
}

/** Rejects required capabilities. Only `atomic` exists, which needs no request. @throws ProviderError 5700 */
function refuseCapabilities(value: unknown): void {
  if (value === undefined) return
  for (const [name, one] of Object.entries(objectOf(value, 'capabilities')))
    if ((one as { optional?: unknown }).optional !== true)
      throw new ProviderError(5700, `This wallet does not support the capability ${name.slice(0, 64)}.`)
}

/** Status of calls by transaction state (EIP-5792): 100 pending, 200 succeeded, 400 failed, 500 reverted as a whole. */
const STATUS: Record<string, number> = { SUBMITTED: 100, MINED: 200, FINALIZED: 200, FAILED: 400, CANCELLED: 400, REPLACED: 400, REVERTED: 500 } // prettier-ignore

/** Returns the status of calls, for `wallet_getCallsStatus`. */
export async function callsStatus(
  id: unknown,
  { sent, current }: { sent: SentCalls; current: WalletNetwork },
): Promise<object> {
  if (typeof id !== 'string') throw invalidParams('The id is not a text.')
  const { network, transaction, isAtomic } = sent.get(id) ?? { network: current, transaction: id, isAtomic: undefined }
  if (!sent.has(id) && !id.startsWith('tx_')) throw new ProviderError(5730, 'This wallet did not send these calls.')
  const { body } = await network.requests
    .get<Transaction>(`/v1/transactions/${encodeURIComponent(transaction)}`)
    .catch((error: unknown) => {
      if (!(error instanceof ClientError) || error.code !== 'transaction_not_found') throw error
      throw new ProviderError(5730, 'This wallet did not send these calls.')
    })
  const { state, chainId, hash, operation, receipt } = body
  return {
    version: VERSION,
    id,
    chainId: toQuantity(chainId),
    status: STATUS[state] ?? 100,
    atomic: isAtomic ?? operation !== undefined,
    ...(receipt === null ? {} : { receipts: [await receiptOf(network, { hash, receipt, operation })] }),
  }
}

async function receiptOf(
  network: WalletNetwork,
  { hash, receipt, operation }: Pick<Transaction, 'hash' | 'operation'> & { receipt: NonNullable<Transaction['receipt']> }, // prettier-ignore
): Promise<object> {
  // A sponsor's transaction may have operations of other users, so its logs may not belong to these calls.
  const read = operation === undefined ? await network.read('eth_getTransactionReceipt', [hash]) : null
  const { logs = [] } = (read ?? {}) as { logs?: unknown[] }
  return {
    logs,
    status: receipt.status === 'SUCCESS' ? '0x1' : '0x0',
    blockHash: receipt.blockHash,
    blockNumber: toQuantity(receipt.blockNumber),
    gasUsed: toQuantity(receipt.gasUsed),
    transactionHash: hash,
  }
}
