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
 * A permission of the signer's own OS user for one withdrawal: from a sponsor to one address on one network, once. A
 * request has its text instead of an access token. It is stored in memory only, so neither an older copy of the store
 * nor a restart revives one. The ledger records the signature by it, under one intent forever.
 */
export type WithdrawalGrant = {
  text: string
  userId: string
  chainId: number
  to: Buffer
  /** wei: maximum of value plus maximum fee */
  most: bigint
  /** milliseconds since 1970 */
  expiresAt: number
  /** the intent that used it; null: unused */
  usedBy: string | null
  /** the grant in the form of a token's caller, for the record */
  caller: TokenCaller
}

/** A grant as the signer's OS user sees it. */
export type ShownGrant = {
  grant: string
  sponsor: string
  chainId: number
  to: string
  most: string
  expiresAt: number
}

export type Withdrawals = {
  /** creates a grant and replaces any earlier one for the sponsor and network, used or not. @throws bad_request, unknown_account */
  grant: (request: unknown) => ShownGrant
  /**
   * finds the grant of a text; null if the text does not have the form of a grant. @throws policy_denied  if the grant
   * expired or is unknown
   */
  find: (text: string) => WithdrawalGrant | null
}

/** One hour in milliseconds, within which the server's operator must use the grant. */
const LASTS_MS = 3_600_000
const PREFIX = 'withdrawal_'
/** Client id in records of withdrawals; no application has this id. */
const CLIENT_ID = 'withdrawal'
const SCOPES = ['contracts:write']
export const WITHDRAWAL = 'sponsor-withdrawal'

/** Opens the withdrawal grants; none exists at the start. */
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
  /** Removes expired grants and returns the others. */
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
      // A withdrawal with the earlier grant may still be waiting for its turn, so expire that grant.
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

/** Decides about a withdrawal: a `send` to the granted address, without a call. Fee bumps and cancellations need no grant. */
export function decideWithdrawal({ kind, tx }: Pick<SignOrder, 'kind' | 'tx'>, { to }: WithdrawalGrant): Decision {
  if (kind !== 'send') return { allowed: false, rule: 'sponsor-withdrawal-send' }
  if (tx.to?.equals(to) !== true) return { allowed: false, rule: 'sponsor-withdrawal-to' }
  if (tx.data.length > 0) return { allowed: false, rule: 'sponsor-withdrawal-data' }
  return { allowed: true, rule: WITHDRAWAL }
}

/**
 * Checks a withdrawal against its grant when it is signed. A withdrawal uses up the whole grant, whatever the amount.
 * The fee counts, because the sponsor loses it as well. The operator's policy does not apply, because it concerns
 * users.
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
    domains: [],
    // The hash identifies the grant in the records without revealing its text, which could be used again.
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
