import { rejected, type NextAttempt } from './limits.ts'
import { ANY_SPONSOR, type DatedCharge, type Meters } from './meters.ts'
import type { PolicyLimits } from './policy.ts'
import { holdPeriod, type MeterCharge, type PeriodLimit } from '../policy/evaluate.ts'
import { ofOperation } from '../refusal.ts'
import { dearerBy } from './unattended.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'

const DAY_SECONDS = 86_400

/**
 * Maximum loss of a sponsor by one more attempt: the wei that the attempt adds to the nonce's cost, and the gas of each
 * user's operations.
 */
export type SponsoredGas = {
  chainId: number
  /** the account that pays: its user id and address */
  sponsor: { userId: string; address: Buffer }
  wei: bigint
  /** wei per gas by which this attempt exceeds the earlier ones; for the first attempt, its whole price */
  price: bigint
  /** in the order of the calldata */
  operations: readonly { userId: string; gasLimit: number }[]
}

/** Returns the additional cost of one more attempt to a sponsor, above the cost of the nonce's earlier attempts. */
export function gasOf({ ask: { tx, carried = [] }, terms, attempts, account }: NextAttempt): SponsoredGas {
  const dearestPrice = attempts.reduce((most, { max }) => (max > most ? max : most), 0n)
  return {
    chainId: tx.chainId,
    sponsor: account,
    operations: carried,
    wei: dearerBy(terms, attempts),
    price: terms.max > dearestPrice ? terms.max - dearestPrice : 0n,
  }
}

/**
 * Charges a sponsor transaction to two limits per network and rolling day:
 * - Per user, over all sponsors: the gas that the user signed for, at the maximum fee, each time that an operation is batched.
 * - Per sponsor: the whole cost.
 *
 * So an attack costs a sponsor at most its limit, and one user's operations cost at most the user's limit. The charge is the
 * maximum loss and is never refunded, because only the server could report the actual cost.
 * @throws operation_refused  for the first operation of a user whose limit is reached
 * @throws policy_denied      if the sponsor's limit is reached, or sponsored operations are disabled
 */
export function askGas(
  { limits, meters }: { limits: PolicyLimits; meters: Meters },
  { chainId, sponsor, wei, price, operations }: SponsoredGas,
  at: number,
): DatedCharge[] {
  const { gasPerUserWei, gasPerSponsorWei } = limits
  if (gasPerUserWei === 0n || gasPerSponsorWei === 0n)
    throw rejected({ rule: 'sponsored-off', reason: 'sponsored operations are off in this signer' })
  const charges: MeterCharge[] = []
  const people = new Map<string, { first: number; gas: bigint }>()
  for (const [index, { userId, gasLimit }] of operations.entries()) {
    const { first, gas } = people.get(userId) ?? { first: index, gas: 0n }
    people.set(userId, { first, gas: gas + BigInt(gasLimit) })
  }
  // The meter of a user counts the payments of all sponsors.
  const read = meters.at(at, ANY_SPONSOR)
  for (const [userId, { first, gas }] of people) {
    const held = holdPeriod(
      limitOf(OWN_RULES.sponsoredPerUser, userId, { chainId, amount: gasPerUserWei, isOwn: true }),
      gas * price,
      read,
    )
    if ('reason' in held) throw ofOperation(first, rejected(held))
    charges.push(held.charge)
  }
  const perSponsor = limitOf('sponsored-per-sponsor', sponsor.userId, {
    chainId,
    amount: gasPerSponsorWei,
    isOwn: false,
  })
  const held = holdPeriod(perSponsor, wei, meters.at(at, sponsor.address.toString('hex')))
  if ('reason' in held) throw rejected(held)
  return meters.dated([...charges, held.charge])
}

/** Describes a limit. A policy has no limit named `sponsored`, so no policy rule shares this meter. */
function limitOf(
  rule: string,
  userId: string,
  { chainId, amount, isOwn }: { chainId: number; amount: bigint; isOwn: boolean },
): PeriodLimit {
  const meter = JSON.stringify([rule, 'sponsored', `user ${userId}`, `chain ${chainId}`])
  return { rule, name: 'sponsored', meter, amount, period: DAY_SECONDS, isOwn }
}
