import { rejected, type NextAttempt } from './limits.ts'
import { ANY_SPONSOR, type DatedCharge, type Meters } from './meters.ts'
import type { PolicyLimits } from './policy.ts'
import { holdPeriod, type MeterCharge, type PeriodLimit } from '../policy/evaluate.ts'
import { ofOperation } from '../refusal.ts'
import { dearerBy } from './unattended.ts'
import { OWN_RULES } from '../../signer-wire/wire.ts'

const DAY_SECONDS = 86_400

/** What a sponsor may lose by one more attempt: wei that it makes the nonce dearer, and of each person’s operations the gas. */
export type SponsoredGas = {
  chainId: number
  /** the account that pays: its user, and its address */
  sponsor: { userId: string; address: Buffer }
  wei: bigint
  /** wei per gas by which the attempt is dearer than those before it; the whole price of the first */
  price: bigint
  /** by operation of the calldata, in its order */
  operations: readonly { userId: string; gasLimit: number }[]
}

/** What one more attempt makes a nonce of a sponsor’s dearer, and so the operations that it carries. */
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
 * What it takes of two limits of a rolling day, on one network: of the person, for whatever sponsor carries an operation of theirs and
 * as often as it is packed, the gas that they signed for at the highest fee; of the sponsor all of it. So an attacked
 * sponsor loses no more than its limit, and one person’s operations no more than theirs. Charged is what can be lost; of
 * what was lost only the server could tell, so nothing is given back.
 * @throws operation_refused  for the first operation of a person who has no room
 * @throws policy_denied      where the sponsor has none, or none may lose anything
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
  // The person’s meter counts what any sponsor pays.
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

/** `sponsored` is no name of a policy’s limit, so no rule of a policy has the same meter. */
function limitOf(
  rule: string,
  userId: string,
  { chainId, amount, isOwn }: { chainId: number; amount: bigint; isOwn: boolean },
): PeriodLimit {
  const meter = JSON.stringify([rule, 'sponsored', `user ${userId}`, `chain ${chainId}`])
  return { rule, name: 'sponsored', meter, amount, period: DAY_SECONDS, isOwn }
}
