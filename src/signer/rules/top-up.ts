import { NO_POLICY, rejected, toLimitLeft, type PolicyVerdict } from './limits.ts'
import { ANY_SPONSOR, type Meters } from './meters.ts'
import type { Decision, PolicyLimits } from './policy.ts'
import { holdPeriod, type PeriodLimit } from '../policy/evaluate.ts'
import type { SignOrder } from '../request.ts'
import { isSponsor } from '../tokens/sponsor.ts'
import { feePair, type UnsignedTransaction } from '../transaction.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'

const DAY_SECONDS = 86_400

/**
 * Returns whether the request has a user's token for a sponsor's account. Such a token may only transfer funds to that
 * user.
 */
export const isTopUp = ({ kind }: Pick<SignOrder, 'kind'>, { userId }: { userId: string }): boolean =>
  kind === 'send' && isSponsor(userId)

/**
 * Decides about a top-up: it must go to the token's user and contain no call.
 * @param address  the user's account; null: the user has no account here
 */
export function decideTopUp({ to, data }: UnsignedTransaction, address: Buffer | null): Decision {
  if (to === null || address === null || !to.equals(address)) return { allowed: false, rule: 'top-up-to' }
  if (data.length > 0) return { allowed: false, rule: 'top-up-data' }
  return { allowed: true, rule: 'top-up' }
}

/**
 * Charges a top-up to two limits per network and rolling day: one per user, one per sponsor. The operator's policy does
 * not apply, because it concerns users' own funds. The charge is value plus maximum fee, which is all that the sponsor
 * can lose. Fee bumps without a token have other limits.
 * @throws policy_denied
 */
export function askTopUp(
  { limits, meters }: { limits: PolicyLimits; meters: Meters },
  { tx, sponsor, person, at }: { tx: UnsignedTransaction; sponsor: string; person: string; at: number },
): PolicyVerdict {
  const { topUpPerUserWei, topUpPerSponsorWei } = limits
  if (topUpPerUserWei === 0n || topUpPerSponsorWei === 0n)
    throw rejected({ rule: OWN_RULES.topUpOff, reason: 'top-ups are off in this signer' })
  const charged = tx.value + tx.gas * feePair(tx.fees).max
  const perUser = limitOf({ rule: OWN_RULES.topUpPerUser, userId: person, chainId: tx.chainId }, topUpPerUserWei, true)
  const perSponsor = limitOf(
    { rule: OWN_RULES.topUpPerSponsor, userId: sponsor, chainId: tx.chainId },
    topUpPerSponsorWei,
    false,
  )
  // The meter of a user counts the top-ups of all sponsors.
  const ofUser = holdPeriod(perUser, charged, meters.at(at, ANY_SPONSOR))
  if ('reason' in ofUser) throw rejected(ofUser)
  const ofSponsor = holdPeriod(perSponsor, charged, meters.at(at, tx.from.toString('hex')))
  if ('reason' in ofSponsor) throw rejected(ofSponsor)
  const held = [ofUser, ofSponsor]
  return {
    ...NO_POLICY,
    charges: meters.dated(held.map(({ charge }) => charge)),
    limits: held.map(({ room }) => toLimitLeft(room)),
  }
}

/** Describes a limit. A policy has no limit named `topUp`, so no policy rule shares this meter. */
function limitOf(
  { rule, userId, chainId }: { rule: string; userId: string; chainId: number },
  amount: bigint,
  isOwn: boolean,
): PeriodLimit {
  const meter = JSON.stringify([rule, 'topUp', `user ${userId}`, `chain ${chainId}`])
  return { rule, name: 'topUp', meter, amount, period: DAY_SECONDS, isOwn }
}
