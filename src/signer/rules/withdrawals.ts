import { hash, randomBytes } from 'node:crypto'
import type { Logger } from '../../log.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import type { Keys } from '../keys/keys.ts'
import { NO_POLICY, rejected, type PolicyVerdict } from './limits.ts'
import type { Decision, PolicyLimits } from './policy.ts'
import { Refusal } from '../refusal.ts'
import { readGrantRequest, type SignOrder } from '../request.ts'
import { feePair, type UnsignedTransaction } from '../transaction.ts'
import { toHex } from '../../hex.ts'

/**
 * Leave of the signer's own user for one withdrawal: funds of a sponsor go to one address on one network, once. Its text is shown in the
 * place of an access token. Kept in memory alone, so that neither an older copy of the store nor a restart brings one back: what was
 * signed by it is in the ledger, under one intent forever.
 */
export type WithdrawalGrant = {
  text: string
  userId: string
  chainId: number
  to: Buffer
  /** wei: value and highest fee together */
  most: bigint
  /** milliseconds since 1970 */
  expiresAt: number
  /** the intent that was signed by it; null: none yet */
  usedBy: string | null
  /** as who it is in the record, as a token's is */
  caller: TokenCaller
}

/** A grant as the signer's user sees it. */
export type ShownGrant = {
  grant: string
  sponsor: string
  chainId: number
  to: string
  most: string
  expiresAt: number
}

export type Withdrawals = {
  /** In the place of an earlier one for the sponsor on this network, used or not. @throws bad_request, unknown_account */
  grant: (request: unknown) => ShownGrant
  /** the grant that a text is; null where it is no text of a grant. @throws policy_denied  of one that is over or not known */
  find: (text: string) => WithdrawalGrant | null
}

/** An hour, in which the operator of the server uses it. */
const LASTS_MS = 3_600_000
const PREFIX = 'withdrawal_'
/** In the place of an application's, which has no such id. */
const CLIENT_ID = 'withdrawal'
const SCOPES = ['contracts:write']
export const WITHDRAWAL = 'sponsor-withdrawal'

export function openWithdrawals({
  keys,
  limits: { chains },
  log,
  now,
}: {
  keys: Pick<Keys, 'ofUser'>
  limits: Pick<PolicyLimits, 'chains'>
  log: Logger
  now: () => number
}): Withdrawals {
  /** by sponsor and network */
  const grants = new Map<string, WithdrawalGrant>()
  /** Those that are over are forgotten. */
  const live = (): WithdrawalGrant[] => {
    for (const [of, { expiresAt }] of grants) if (expiresAt <= now()) grants.delete(of)
    return [...grants.values()]
  }
  return {
    grant(request) {
      const { userId, chainId, to, most } = readGrantRequest(request)
      const account = keys.ofUser(userId)
      if (account === null) throw new Refusal('unknown_account', 'The signer does not have this sponsor.')
      if (account.address.equals(to))
        throw new Refusal(
          'bad_request',
          'The recipient is the sponsor itself. Nothing was granted. Use another address.',
        )
      if (chains?.has(chainId) === false)
        throw new Refusal('bad_request', 'SIGNER_CHAINS does not list this network. Nothing was granted.')
      const text = `${PREFIX}${randomBytes(32).toString('base64url')}`
      const made = { text, userId, chainId, to, most, expiresAt: now() + LASTS_MS, usedBy: null }
      const of = `${userId} ${chainId}`
      // For a withdrawal that found the earlier one, and waits for its turn.
      const earlier = grants.get(of)
      if (earlier !== undefined) earlier.expiresAt = 0
      grants.set(of, { ...made, caller: callerOf(made) })
      log.warn('withdrawal_granted', { sponsor: userId, chainId, to: toHex(to), most: String(most) })
      return show(made)
    },
    find(text) {
      if (!text.startsWith(PREFIX)) return null
      const grant = live().find((one) => one.text === text)
      if (grant === undefined)
        throw rejected({
          rule: WITHDRAWAL,
          reason: 'the grant does not exist, or has expired. Create a new grant as the signer’s user',
        })
      return grant
    },
  }
}

/** The gate of a withdrawal: funds for the address that was named, and no call. Raises and cancels need no leave. */
export function decideWithdrawal({ kind, tx }: Pick<SignOrder, 'kind' | 'tx'>, { to }: WithdrawalGrant): Decision {
  if (kind !== 'send') return { allowed: false, rule: 'sponsor-withdrawal-send' }
  if (tx.to?.equals(to) !== true) return { allowed: false, rule: 'sponsor-withdrawal-to' }
  if (tx.data.length > 0) return { allowed: false, rule: 'sponsor-withdrawal-data' }
  return { allowed: true, rule: WITHDRAWAL }
}

/**
 * What a withdrawal takes of its grant: all of it, whatever the amount. As things are when it is signed, and with the fee, which is lost to
 * the sponsor as well. The operator's policy is about people.
 * @throws policy_denied
 */
export function askWithdrawal(
  { usedBy, most, expiresAt }: WithdrawalGrant,
  { tx, intentId, at }: { tx: UnsignedTransaction; intentId: string; at: number },
): PolicyVerdict {
  if (usedBy !== null && usedBy !== intentId)
    throw rejected({ rule: 'sponsor-withdrawal-once', reason: 'this grant was used for another withdrawal' })
  if (expiresAt <= at) throw rejected({ rule: WITHDRAWAL, reason: 'this grant has expired' })
  if (tx.value + tx.gas * feePair(tx.fees).max > most)
    throw rejected({ rule: 'sponsor-withdrawal-most', reason: 'the value and the highest fee exceed the grant' })
  return NO_POLICY
}

function callerOf({ text, userId, chainId, expiresAt }: Omit<WithdrawalGrant, 'caller'>): TokenCaller {
  const tokenHash = hash('sha256', text, 'base64url')
  return {
    userId,
    clientId: CLIENT_ID,
    scopes: SCOPES,
    chainId,
    // The record tells two withdrawals by one grant, and does not hold what others could show again.
    tokenId: `${PREFIX}${tokenHash}`,
    tokenHash,
    jti: null,
    expiresAt: Math.floor(expiresAt / 1_000),
    marks: { grant: '', application: '', user: '' },
  }
}

const show = ({ text, userId, chainId, to, most, expiresAt }: Omit<WithdrawalGrant, 'caller'>): ShownGrant => ({
  grant: text,
  sponsor: userId,
  chainId,
  to: toHex(to),
  most: String(most),
  expiresAt,
})
