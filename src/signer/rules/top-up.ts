import { rejected, toLimitLeft, type PolicyVerdict } from './limits.ts'
import { ANY_SPONSOR, type Meters } from './meters.ts'
import type { Decision, PolicyLimits } from './policy.ts'
import { holdPeriod, type PeriodLimit } from '../policy/evaluate.ts'
import type { SignOrder } from '../request.ts'
import { isSponsor } from '../tokens/sponsor.ts'
import { feePair, type UnsignedTransaction } from '../transaction.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'

const DAY_SECONDS = 86_400

/** Whether a token is shown for an account of a sponsor’s: a person’s may send them funds from there, and do nothing else. */
export const isTopUp = ({ kind }: Pick<SignOrder, 'kind'>, { userId }: { userId: string }): boolean =>
  kind === 'send' && isSponsor(userId)

/**
 * The gate of a top-up: funds for the person whose token was shown, and no call.
 * @param address  the person’s; null: they have no account here
 */
export function decideTopUp({ to, data }: UnsignedTransaction, address: Buffer | null): Decision {
  if (to === null || address === null || !to.equals(address)) return { allowed: false, rule: 'top-up-to' }
  if (data.length > 0) return { allowed: false, rule: 'top-up-data' }
  return { allowed: true, rule: 'top-up' }
}

/**
 * What a top-up takes of two limits of a rolling day, and not of the operator’s policy, which is about what people do with their own
 * funds. Counted is value and highest fee, all that the sponsor can lose by it; a raise without a token has bounds of its own.
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
  // The person’s meter counts what any sponsor gave.
  const ofUser = holdPeriod(perUser, charged, meters.at(at, ANY_SPONSOR))
  if ('reason' in ofUser) throw rejected(ofUser)
  const ofSponsor = holdPeriod(perSponsor, charged, meters.at(at, tx.from.toString('hex')))
  if ('reason' in ofSponsor) throw rejected(ofSponsor)
  const held = [ofUser, ofSponsor]
  return {
    policy: null,
    charges: meters.dated(held.map(({ charge }) => charge)),
    limits: held.map(({ room }) => toLimitLeft(room)),
  }
}

/** `topUp` is no name of a policy’s limit, so no rule of a policy has the same meter. */
function limitOf(
  { rule, userId, chainId }: { rule: string; userId: string; chainId: number },
  amount: bigint,
  isOwn: boolean,
): PeriodLimit {
  const meter = JSON.stringify([rule, 'topUp', `user ${userId}`, `chain ${chainId}`])
  return { rule, name: 'topUp', meter, amount, period: DAY_SECONDS, isOwn }
}
