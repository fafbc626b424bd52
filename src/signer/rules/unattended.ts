import type { SignedAttempt } from './judge.ts'

/** What was signed without a token: its network, when, and by how many wei it made the nonce dearer. */
export type Unattended = { chainId: number; at: number; wei: bigint }

export type UnattendedFees = {
  /** whether so much more fits into the hour of a network */
  hasRoom: (chainId: number, wei: bigint) => boolean
  /** counts what is about to be signed; inside the group, so that two do not share the last room */
  charge: (chainId: number, wei: bigint) => void
}

const BUCKET_MS = 60_000
const BUCKETS = 60

/**
 * Fees of what is signed without a token, by network: raises, cancels and fills, over all accounts and for a rolling hour.
 * A stolen server can have these signed for every account, so they have a bound that no number of accounts widens.
 *
 * In buckets of a minute, of which 61 are added up: a little more than an hour counts, never less. The clock may not go
 * back; what the ledger says of the last hour is counted again at a start.
 * @param earlier  of the last hour, in any order
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

  // A record from the future is of a clock that was set back: it counts from now.
  for (const { chainId, at, wei } of earlier) add(chainId, Math.min(bucketOf(at), newest), wei)
  return {
    hasRoom: (chainId, wei) => wei === 0n || used(chainId) + wei <= maxWei,
    charge: (chainId, wei) => add(chainId, current(), wei),
  }
}

/**
 * wei by which one more attempt without a token makes a nonce dearer than the dearest such attempt before it: of all of them one
 * is mined. Attempts with a token are not deducted: their user agreed to a limit, of which they might have paid little.
 * @param before  without a token
 */
export function dearerBy(
  next: Pick<SignedAttempt, 'gas' | 'max'>,
  before: Pick<SignedAttempt, 'gas' | 'max'>[],
): bigint {
  const dearest = before.reduce((most, { gas, max }) => (gas * max > most ? gas * max : most), 0n)
  const total = next.gas * next.max
  return total > dearest ? total - dearest : 0n
}
