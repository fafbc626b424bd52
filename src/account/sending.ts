import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { openLimit } from '../http/limits.ts'
import type { Db } from '../store/db.ts'
import { pagesBudgetOf } from '../store/sponsor-budget.ts'
import { parseUserId, type Hex, type UserId } from '../ids.ts'
import type { AccountSending, Rehearsed, Sender } from '../oauth/account/slices.ts'
import { readTokenFacts } from '../tokens/read.ts'
import { findOwn } from '../transactions/read/list-own.ts'
import { isCarried } from '../transactions/lanes/own-nonces.ts'
import { waitUntilMined } from '../transactions/read/wait.ts'
import type { SubjectForms } from '../transfers/recipient.ts'
import { rehearseTransfer, transferTokens } from '../transfers/send.ts'
import { entryOfWrite } from './activity.ts'
import { callerOf as callerFor } from './sent.ts'

/**
 * Users that one account may look up per minute, beside as many by `POST /v1/tokens/transfers`: too few to read a
 * directory.
 */
const LOOK_UPS_PER_MINUTE = 10
/** Maximum time that a page waits for the next block, in milliseconds. */
const PATIENCE_MS = 3_000

/** Returns the user of an account as the caller. @throws account_frozen, invalid_token */
type CallerOf = (sender: Sender, chainId: number) => Promise<Caller>

/** Opens sending from the account page: the functions of `POST /v1/tokens/transfers`, with the user as the caller. */
export function accountSending(app: App, callerOf: CallerOf, forms: SubjectForms): AccountSending {
  const limit = openLimit({
    name: 'recipients',
    perSecond: LOOK_UPS_PER_MINUTE / 60,
    burst: LOOK_UPS_PER_MINUTE,
    now: () => app.clock.wall(),
  })
  const lookUpOf = (accountId: string) => () => {
    if (app.config.RATE_LIMITS === 'off') return
    const { allowed, retryAfter } = limit.take(accountId, 1)
    if (!allowed)
      throw new AppError(
        'rate_limited',
        'Too many look-ups of users by name. Nothing was sent. Wait a moment, then retry.',
        { retryAfter },
      )
  }
  return {
    sendable: async (_owner, chainId) => {
      const chain = app.chains.get(chainId)
      if (chain?.gas !== 'sponsor' || (await hasPagesBudget(app.db, chainId))) return 'all'
      return [...(chain.topUpContracts ?? [])]
    },
    rehearse: async (sender, chainId, order) => {
      const { accountId } = sender
      const caller = await callerOf(sender, chainId)
      const chain = chainOf(app, caller)
      const found = await rehearseTransfer(app, caller, order, { forms, lookUp: lookUpOf(accountId) })
      const { address, userId: named } = found.recipient
      const { decimals, symbol, coin } = chain
      const { tokenAddress } = order
      const called = (tokenAddress ?? address ?? caller.address).toLowerCase() as Hex
      const isSponsored = await isCarried(app, chain, caller.address, called)
      const token = tokenAddress === undefined ? null : await readTokenFacts(app, chain, tokenAddress as Hex)
      return {
        thing: token === null ? { name: coin, symbol } : { name: token.name, symbol: token.symbol },
        fee: { value: isSponsored ? 0n : BigInt(found.fee.hex), decimals, symbol },
        recipient: { address, userId: named, name: await nameOf(app.db, named) },
      }
    },
    send: async (sender, chainId, order, key) => {
      const { accountId } = sender
      const caller = await callerOf(sender, chainId)
      const { answer } = await transferTokens(app, caller, order, {
        forms,
        lookUp: lookUpOf(accountId),
        idempotencyKey: key,
      })
      return answer.id
    },
    look: async (owner, chainId, id) => {
      const chain = app.chains.get(chainId)
      if (chain === undefined || !/^tx_[\da-f-]{36}$/.test(id)) return null
      if ((await findOwn(app, { accountId: owner.accountId, chainId }, id)) === null) return null
      await waitUntilMined(app, chain, id, PATIENCE_MS)
      const row = await findOwn(app, { accountId: owner.accountId, chainId }, id)
      return row === null ? null : entryOfWrite(app, callerFor(owner, chainId), chain, row)
    },
  }
}

/** Returns whether sponsors pay for what users send from these pages on a network. */
async function hasPagesBudget(db: Db, chainId: number): Promise<boolean> {
  const row = await db
    .selectFrom('networks')
    .select(['pages_per_user', 'pages_per_day'])
    .where('chain_id', '=', chainId)
    .executeTakeFirst()
  return row !== undefined && pagesBudgetOf(row) !== null
}

/** Returns the username of the identity that the recipient was named by; null if it has never signed in. */
async function nameOf(db: Db, userId: UserId | null): Promise<Rehearsed['recipient']['name']> {
  const identity = userId === null ? null : parseUserId(userId)
  if (identity === null) return null
  const row = await db
    .selectFrom('identities')
    .select('username')
    .where('provider', '=', identity.provider)
    .where('subject', '=', identity.subject)
    .where('signed_in_at', 'is not', null)
    .executeTakeFirst()
  return row?.username ?? null
}
