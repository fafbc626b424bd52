import { bigNumber } from '../abi/bignumber.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { findBegun } from '../transactions/read/repeated-request.ts'
import { dryRun, simulate } from '../transactions/lanes/dry-run.ts'
import type { Intent } from '../transactions/intent.ts'
import type { WriteOptions } from '../transactions/key.ts'
import { sendTransaction } from '../transactions/lanes/send.ts'
import { readValueOf } from './amount.ts'
import { intentOf, movedBy, transferIn } from './calldata.ts'
import { explaining, refuseFalse, type TokenMove } from './explain-refusal.ts'
import { readOrder, type TransferBody, type TransferOrder } from './order.ts'
import { findRecipient, showRecipient, type Stranger, type SubjectForms } from './recipient.ts'
import { standInOf, welcome } from './strangers.ts'
import type { RehearsedTransfer, TransferAnswer } from './wire.ts'

/** Route of the operation, which is also the scope of its idempotency keys. */
export const TRANSFER_ROUTE = '/v1/tokens/transfers'

/**
 * `lookUp` is called before a look-up that counts toward the limit.
 * @throws rate_limited
 */
export type TransferOptions = { forms: SubjectForms; lookUp: () => void }

/**
 * Sends native currency or tokens of the caller to a user or an address. A recipient who has not signed in yet gets an
 * account, after the transfer was simulated to a placeholder address.
 * @param idempotencyKey  the caller's key, validated
 * @throws the errors of `readOrder`, `findRecipient`, `readValueOf`, `welcome`, `explaining` and `sendTransaction`
 */
export async function transferTokens(
  app: App,
  caller: Caller,
  body: TransferBody,
  { forms, lookUp, idempotencyKey, askedFrom }: TransferOptions & WriteOptions,
): Promise<{ answer: TransferAnswer; isReplay: boolean }> {
  const order = readOrder(body)
  const { asset, to, requestHash } = order
  const chain = chainOf(app, caller)
  const idempotency = idempotencyKey === undefined ? null : { key: idempotencyKey, route: TRANSFER_ROUTE, requestHash }
  const begun = idempotency === null ? null : await findBegun(app, caller, idempotency)
  const { intent, value } = begun === null ? await settle(app, chain, caller, order, { forms, lookUp }) : await resettle(app, chain, caller, asset, begun) // prettier-ignore
  const options = {
    idempotency: idempotency && { ...idempotency, isTold: begun?.isTold === true },
    askedFrom,
    reference: body.reference,
  }
  const move = { asset, from: caller.address, value }
  const { answer, isReplay } = await explaining(app, chain, move, () => sendTransaction(app, caller, intent, options))
  // From the transaction, or from the operation: a retry gets the result of its first request.
  const moved = movedBy(asset.tokenType, answer.operation ?? answer.tx)
  const { status, hash, explorerUrl, id, state, reference } = answer
  const recipient = await showRecipient(app, to, moved.to)
  return {
    answer: { status, hash, explorerUrl, id, state, reference, recipient, amount: amountOf(moved.value) },
    isReplay,
  }
}

/**
 * Performs everything of a transfer except its signature; no account is created.
 * @throws as `transferTokens`
 */
export async function rehearseTransfer(
  app: App,
  caller: Caller,
  body: TransferBody,
  { forms, lookUp }: TransferOptions,
): Promise<RehearsedTransfer> {
  const { asset, to } = readOrder(body)
  const chain = chainOf(app, caller)
  // A dry run costs the caller nothing but reveals whether a user exists, so it counts toward the look-up limit.
  if (to.by !== 'address') lookUp()
  const found = await findRecipient(app, caller, to, forms)
  const value = await readValueOf(chain, asset)
  const address = 'address' in found ? found.address : null
  const move = { asset, from: caller.address, value }
  const intent = intentOf(asset, { ...move, to: address ?? standInOf((found as { stranger: Stranger }).stranger) })
  const { status, gas, fee, rule, approval } = await explaining(app, chain, move, async () => {
    await refuseFalse(chain, move, intent)
    return dryRun(app, caller, intent)
  })
  return { status, recipient: await showRecipient(app, to, address), amount: amountOf(value), gas, fee, rule, approval }
}

/** Determines the recipient and the call, unless an earlier request has done so. */
async function settle(
  app: App,
  chain: Chain,
  caller: Caller,
  { asset, to }: TransferOrder,
  { forms, lookUp }: TransferOptions,
): Promise<{ intent: Intent; value: bigint }> {
  if (to.by === 'name') lookUp()
  const found = await findRecipient(app, caller, to, forms)
  const move = { asset, from: caller.address, value: await readValueOf(chain, asset) }
  const address = 'address' in found ? found.address : await invite(app, chain, caller, move, found.stranger)
  const intent = intentOf(asset, { ...move, to: address })
  if ('address' in found) await explaining(app, chain, move, () => refuseFalse(chain, move, intent))
  return { intent, value: move.value }
}

/** Checks a transfer again that its user was asked about. */
async function resettle(
  app: App,
  chain: Chain,
  { address: from }: Caller,
  asset: TransferOrder['asset'],
  { intent, isTold }: { intent: Intent; isTold: boolean },
): Promise<{ intent: Intent; value: bigint }> {
  const moved = transferIn(from, intent)
  if (isTold || moved === null) return { intent, value: moved?.value ?? 0n }
  const move = { asset, from, value: moved.value }
  const same = intentOf(asset, { ...move, to: moved.to })
  await explaining(app, chain, move, () => refuseFalse(chain, move, same))
  return { intent: same, value: moved.value }
}

/**
 * Creates an account for a recipient once the simulated transfer succeeds: a transfer that would be rejected creates
 * none.
 */
async function invite(app: App, chain: Chain, caller: Caller, move: TokenMove, stranger: Stranger): Promise<Hex> {
  const intent = intentOf(move.asset, { ...move, to: standInOf(stranger) })
  await explaining(app, chain, move, async () => {
    await refuseFalse(chain, move, intent)
    await simulate(app, caller, intent)
  })
  return welcome(app, caller, stranger)
}

const amountOf = (value: bigint): TransferAnswer['amount'] => ({ value: String(value), valueBn: bigNumber(value) })
