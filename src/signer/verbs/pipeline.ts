/**
 * signer/verbs: the signer’s verbs, one file each.
 * Owns: parsing signature requests, the order of the checks, and which records are written to the ledger.
 * Does not own: what may be signed (`signer/rules/authority.ts`), the records (`signer/ledger/ledger.ts`).
 */

import { approvalRequired, type Approvals } from '../rules/approval.ts'
import type { Authority, EvidenceBesides } from '../rules/authority.ts'
import type { Signature } from '../keys/curve.ts'
import { assertNotSuspended, type Freezes } from '../tokens/freezes.ts'
import type { RunGrouped } from '../group.ts'
import type { SignerIdentity } from '../keys/identity.ts'
import type { Keys } from '../keys/keys.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { PolicyVerdict } from '../rules/limits.ts'
import { spentToText, type Meters } from '../rules/meters.ts'
import type { PolicyLimits } from '../rules/policy.ts'
import type { PolicyInForce } from '../rules/policy-in-force.ts'
import type { SignedRecord } from '../ledger/record.ts'
import { Refusal } from '../refusal.ts'
import type { TokenVerifier } from '../tokens/tokens.ts'
import type { UnattendedFees } from '../rules/unattended.ts'
import type { Checked } from '../../signer-wire/wire.ts'
import type { Withdrawals } from '../rules/withdrawals.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/** Parts of the signer that the verbs use. */
export type Inside = {
  keys: Keys
  tokens: TokenVerifier
  approvals: Approvals
  withdrawals: Pick<Withdrawals, 'find'>
  ledger: Ledger
  group: RunGrouped
  limits: PolicyLimits
  unattended: UnattendedFees
  freezes: Pick<Freezes, 'assertMoves' | 'isApplicationFrozen'>
  policy: Pick<PolicyInForce, 'current'>
  meters: Meters
  /** checks that signatures without a token are allowed. @throws revocations_stale */
  assertUnattended: () => void
  identity: Pick<SignerIdentity, 'origin' | 'sign'>
  now: () => number
}

/** A signature request that has passed every check that does not depend on the ledger: freezes, authority and rules, in this order. */
export type SigningJob<D> = {
  account: KeptAccount
  chainId: number
  /**
   * position in a group, which runs jobs in ascending order, so that requests that arrived out of order leave no gap
   */
  order: number
  authority: Authority
  /** checks the ledger, its rules and the limits */
  draft: (at: number) => D
}

/** A drafted signature: all checks have passed, and nothing is signed yet. */
export type SignatureDraft<A> = Omit<PolicyVerdict, 'rule' | 'requires'> & {
  rule: string
  /** the rule that requires the user's approval; null if none does, or if the request has a valid one */
  requires: string | null
  /** recorded in addition to the token */
  besides?: EvidenceBesides
  /** true if the ledger has all of it already */
  stored: boolean
  /** wei charged to the network's hourly limit for signatures without a token or grant */
  unattendedWei: bigint
  /** signs, and returns the records to append; there are none if everything is stored */
  make: (sign: (digest: Buffer) => Signature) => { records: SignedRecord[]; answer: A }
  /** called after the records are appended, in the same commit */
  recorded?: () => void
}

/**
 * Signs a request. Every signature passes through here, one at a time, in this order:
 * 1. Check freezes again, then the ledger, its rules and the limits.
 * 2. Open the key, sign, and verify the signature.
 * 3. Append the records with the limits that they use, and commit.
 * 4. Return the answer.
 */
export function signInTurn<A>(inside: Inside, job: SigningJob<SignatureDraft<A>>): Promise<A> {
  const { keys, group, ledger, meters, unattended, now } = inside
  const { account, authority, chainId, order } = job
  const { userId, address } = account
  const { clientId, tokenId } = authority.caller ?? { clientId: null, tokenId: null }
  return group(order, () => {
    const at = now()
    const { policy, charges, unattendedWei, besides, make, recorded } = assertComplete(draftNow(inside, job, at))
    // Make all signatures before anything is written, so that a key that does not open rejects the whole request.
    const { records, answer } = make((digest) => keys.sign(account, digest))
    if (records.length === 0) return answer
    // If an operation and its authorization are recorded together, the operation's record takes the limits.
    let limits = { policy, spent: spentToText(charges) }
    for (const record of records) {
      const evidence = authority.evidence(record.rule, besides)
      ledger.append({ at, userId, address, clientId, tokenId, evidence, ...limits, ...record })
      limits = { policy: null, spent: null }
    }
    meters.charge(at, charges)
    unattended.charge(chainId, unattendedWei)
    recorded?.()
    return answer
  })
}

/** Drafts what `signInTurn` would sign now. */
export function draftNow<D>({ freezes, assertUnattended }: Inside, job: SigningJob<D>, at: number): D {
  const { account, chainId, authority } = job
  // Check again: a freeze may have arrived while the token was verified.
  freezes.assertMoves({ chainId, userId: account.userId })
  if (authority.waitsForList) assertUnattended()
  const { token } = authority
  if (token !== null) {
    freezes.assertMoves({ chainId, userId: token.userId })
    assertNotSuspended(freezes, token.clientId)
  }
  return job.draft(at)
}

/** Returns the answer of a dry run. */
export const toChecked = ({ rule, stored, requires, limits }: SignatureDraft<unknown>): Omit<Checked, 'kind'> => ({
  rule,
  stored,
  requires,
  ...(limits.length === 0 ? {} : { limits }),
})

/** Checks that no approval is missing. @throws approval_required */
function assertComplete<D extends SignatureDraft<unknown>>(draft: D): D {
  if (draft.requires !== null) throw approvalRequired(draft.requires)
  return draft
}

/**
 * Returns the account that is to sign and the authority for it. Reports an unknown account only after the check of the
 * authority.
 * @throws unknown_account
 */
export async function admit<A>(
  { keys, freezes }: Inside,
  { chainId, from }: { chainId: number; from: Buffer },
  readAuthority: (account: KeptAccount | null) => Promise<A>,
): Promise<{ account: KeptAccount; authority: A }> {
  const account = keys.ofAddress(from)
  if (account !== null) freezes.assertMoves({ chainId, userId: account.userId })
  const authority = await readAuthority(account)
  if (account === null) throw new Refusal('unknown_account', 'The signer does not have this account.')
  return { account, authority }
}
