import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { deadline, standAside } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import type { Caller } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { contractsOf } from './delegation.ts'
import type { Intent } from '../intent.ts'
import { owesDelegation } from '../lanes/own-nonces.ts'
import { sendOperation } from '../lanes/send-operation.ts'
import { nextBlock } from '../read/wait.ts'

/** milliseconds that remain for the write itself and its top-up */
const FOR_THE_WRITE_MS = 5_000
/** longest wait of a request without a deadline */
const MAX_WAIT_MS = 60_000
/** milliseconds between two checks without a new block; another replica may be the follower */
const LOOK_EVERY_MS = 1_000

/** Returns a call of the delegate contract without data, which does nothing. */
const nothing = (chain: Chain): Intent => ({ to: contractsOf(chain).delegate, data: '0x', value: 0n, abi: '', fn: null, errors: [] }) // prettier-ignore

/**
 * Waits until an authorization that the account signed is mined. Otherwise a write that the account sends itself would
 * wait behind that nonce permanently.
 * If no open operation includes the authorization, sends an operation that does nothing: a user whose application
 * writes only to that one contract would sign no other operation.
 * @param to  address that the write calls, in lower case, which the budget has to pay for
 * @throws conflict  if it takes longer than the request; and the errors of `sendOperation`
 */
export async function bringDelegation(app: App, chain: Chain, caller: Caller, to: Hex): Promise<void> {
  // On other networks, a sponsor sends such a write together with the authorization.
  if (chain.gas !== 'sponsor') return
  const until = Math.min(deadline() - FOR_THE_WRITE_MS, app.clock.ticks() + MAX_WAIT_MS)
  while (await owesDelegation(app, chain, caller.address)) {
    if (!(await isOnItsWay(app, chain, caller.address)))
      await sendOperation(app, caller, [nothing(chain)], { idempotency: null, paidFor: [to] })
    const left = until - app.clock.ticks()
    if (left <= 0 || !standAside()) throw behindDelegation()
    await nextBlock(chain, Math.min(left, LOOK_EVERY_MS))
  }
}

const behindDelegation = (): AppError =>
  new AppError('conflict', 'A write that delegates the account is not mined yet. The account can send this write after that. Nothing was sent. Retry.', { retryAfter: 5 }) // prettier-ignore

/**
 * Returns whether an operation with the authorization is submitted, or about to be. An operation that has been bound
 * for longer was left by a process that died.
 */
async function isOnItsWay({ db }: App, { chainId }: Chain, account: Hex): Promise<boolean> {
  const row = await db
    .selectFrom('operations')
    .select('id')
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(account))
    .where('authorization_nonce', 'is not', null)
    .where((eb) =>
      eb.or([
        eb('state', '=', 'SUBMITTED'),
        eb.and([eb('state', '=', 'BOUND'), eb('updated_at', '>', sql<Date>`now() - interval '5 seconds'`)]),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
