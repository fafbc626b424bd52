import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { openLimit } from '../http/limits.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { parseUserId, type Hex, type UserId } from '../ids.ts'
import type { AccountOwner, AccountSending, Rehearsed, Sender, ShownMove } from '../oauth/account/slices.ts'
import { readTokenFacts } from '../tokens/read.ts'
import { findOwn, type OwnTransaction } from '../transactions/read/list-own.ts'
import { waitUntilMined } from '../transactions/read/wait.ts'
import { transferIn } from '../transfers/calldata.ts'
import type { SubjectForms } from '../transfers/recipient.ts'
import { rehearseTransfer, transferTokens } from '../transfers/send.ts'
import { namesOf } from '../users/names.ts'
import { sentOf } from './reads.ts'

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
    rehearse: async (sender, chainId, order) => {
      const { accountId } = sender
      const caller = await callerOf(sender, chainId)
      const chain = chainOf(app, caller)
      const found = await rehearseTransfer(app, caller, order, { forms, lookUp: lookUpOf(accountId) })
      const { address, userId: named } = found.recipient
      const { decimals, symbol, coin } = chain
      const { tokenAddress } = order
      const token = tokenAddress === undefined ? null : await readTokenFacts(app, chain, tokenAddress as Hex)
      return {
        thing: token === null ? { name: coin, symbol } : { name: token.name, symbol: token.symbol },
        fee: { value: BigInt(found.fee.hex), decimals, symbol },
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
      return row === null ? null : { sent: sentOf(chain, row), move: await moveOf(app, chain, owner, row) }
    },
  }
}

/**
 * Returns the transfer that a transaction makes out of an account; null if it makes none, or the token cannot be read.
 */
async function moveOf(
  app: App,
  chain: Chain,
  { address }: AccountOwner,
  own: Pick<OwnTransaction, 'to' | 'value'> & { data: Hex },
): Promise<ShownMove | null> {
  const move = transferIn(address.toLowerCase() as Hex, own)
  if (move === null) return null
  try {
    const { token, tokenType, tokenId, value } = move
    const { name, symbol, decimals } =
      token === null
        ? { name: chain.coin, symbol: chain.symbol, decimals: chain.decimals }
        : await readTokenFacts(app, chain, token)
    const names = await namesOf(app, [fromHex(move.to)])
    return {
      amount: tokenType === 'ERC721' ? null : { value, decimals: tokenType === 'ERC1155' ? 0 : decimals, symbol: '' },
      thing: symbol || name,
      tokenId,
      to: { address: checksumAddress(move.to) as Hex, name: names.get(move.to) ?? null },
    }
  } catch (error) {
    app.telemetry.log.warn('account_unreadable', { chainId: chain.chainId }, error)
    return null
  }
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
