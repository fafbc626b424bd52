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

/** milliseconds that are left for the write itself, and for its funds */
const FOR_THE_WRITE_MS = 5_000
/** what nobody is asked for within a request that never ends */
const MAX_WAIT_MS = 60_000
/** milliseconds between two looks when no block comes; another replica may be the one that follows */
const LOOK_EVERY_MS = 1_000

/** What accounts delegate to takes a call without data itself, and does nothing. */
const nothing = (chain: Chain): Intent => ({ to: contractsOf(chain).delegate, data: '0x', value: 0n, abi: '', fn: null, errors: [] }) // prettier-ignore

/**
 * Before an account sends a write itself: an authorization that it signed is in a block, since what it sends would wait behind that for good.
 * Where nothing that may still be done carries it, an operation that does nothing does: a person whose application writes to that one contract
 * only would sign no other.
 * @param to  what the write calls, in lower case, which the budget has to pay for
 * @throws conflict  it takes longer than the request; and what `sendOperation` throws
 */
export async function bringDelegation(app: App, chain: Chain, caller: Caller, to: Hex): Promise<void> {
  // Elsewhere such a write is carried itself.
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

/** Whether a write in which it delegates is carried, or is about to be: one that has waited for longer was left by a process that died. */
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
