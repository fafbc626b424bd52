import type { SignedAttempt } from './judge.ts'

/** A signature without a token: its network, its time, and the wei that it added to the cost of the nonce. */
export type Unattended = { chainId: number; at: number; wei: bigint }

export type UnattendedFees = {
  /** returns whether the hourly limit of a network covers this amount */
  hasRoom: (chainId: number, wei: bigint) => boolean
  /**
   * counts a signature that is about to be made; inside the commit group, so that two signatures cannot use the same
   * amount
   */
  charge: (chainId: number, wei: bigint) => void
}

const BUCKET_MS = 60_000
const BUCKETS = 60

/**
 * Opens the limit on fees signed without a token: fee bumps, cancellations and gap-filling transactions, per network
 * and rolling hour, over all accounts. An attacker who controls the server can request these for every account, so the
 * limit does not grow with the number of accounts.
 *
 * Buckets last a minute, and 61 are added up, so slightly more than an hour counts, never less. Time never goes back
 * while the signer runs. A start counts the ledger's last hour again.
 * @param earlier  the signatures of the last hour, in any order
 */
export function openUnattendedFees({
  maxWei,
  earlier,
  now,
}: {
  maxWei: bigint
  earlier: Iterable<Unattended>
  now: () => number
}): UnattendedFees {
  const chains = new Map<number, Map<number, bigint>>()
  let newest = bucketOf(now())

  function bucketOf(at: number): number {
    return Math.floor(at / BUCKET_MS)
  }
  function current(): number {
    newest = Math.max(newest, bucketOf(now()))
    return newest
  }
  function add(chainId: number, bucket: number, wei: bigint): void {
    const buckets = chains.get(chainId) ?? new Map<number, bigint>()
    buckets.set(bucket, (buckets.get(bucket) ?? 0n) + wei)
    chains.set(chainId, buckets)
  }
  function used(chainId: number): bigint {
    const oldest = current() - BUCKETS
    let sum = 0n
    for (const [bucket, wei] of chains.get(chainId) ?? []) {
      if (bucket < oldest) chains.get(chainId)!.delete(bucket)
      else sum += wei
    }
    return sum
  }

  // A record dated in the future means that the clock was set back, so it counts from now.
  for (const { chainId, at, wei } of earlier) add(chainId, Math.min(bucketOf(at), newest), wei)
  return {
    hasRoom: (chainId, wei) => wei === 0n || used(chainId) + wei <= maxWei,
    charge: (chainId, wei) => add(chainId, current(), wei),
  }
}

/**
 * Returns the wei by which one more attempt exceeds the most expensive earlier attempt. Only the excess counts, because
 * only one attempt of a nonce is mined.
 * @param before  the attempts that the same limit was charged for. A limit for attempts without a token does not
 *   deduct attempts with one, because their user may have paid little of the agreed amount.
 */
export function dearerBy(
  next: Pick<SignedAttempt, 'gas' | 'max'>,
  before: Pick<SignedAttempt, 'gas' | 'max'>[],
): bigint {
  const dearest = before.reduce((most, { gas, max }) => (gas * max > most ? gas * max : most), 0n)
  const total = next.gas * next.max
  return total > dearest ? total - dearest : 0n
}
