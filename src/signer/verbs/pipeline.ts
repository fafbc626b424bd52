/**
 * signer/verbs: what the server asks the signer for, one file for each verb.
 * Owns: reading a request for a signature, the order of the checks before it, and what it writes to the ledger.
 * Does not own: what may be signed (`signer/rules/authority.ts`), the records (`signer/ledger/ledger.ts`).
 */

import type { Authority } from '../rules/authority.ts'
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

/** What the verbs of the signer work with. */
export type Inside = {
  keys: Keys
  tokens: TokenVerifier
  withdrawals: Pick<Withdrawals, 'find'>
  ledger: Ledger
  group: RunGrouped
  limits: PolicyLimits
  unattended: UnattendedFees
  freezes: Pick<Freezes, 'assertMoves' | 'isApplicationFrozen'>
  policy: Pick<PolicyInForce, 'current'>
  meters: Meters
  /** @throws revocations_stale */
  assertUnattended: () => void
  identity: Pick<SignerIdentity, 'origin' | 'sign'>
  now: () => number
}

/** What a verb asks for, once all that does not depend on the ledger has let it pass: freezes, authority and rules, in this order. */
export type SigningJob<D> = {
  account: KeptAccount
  chainId: number
  /** lower ones come first in a group: requests that overtook each other on the way are no gap */
  order: number
  authority: Authority
  /** what the ledger, the rules about it and the limits say */
  draft: (at: number) => D
}

/** What is left to be signed. */
export type SignatureDraft<A> = Omit<PolicyVerdict, 'rule'> & {
  rule: string
  /** the ledger holds it already */
  stored: boolean
  /** wei that it takes of what a network’s hour allows without anyone’s agreement */
  unattendedWei: bigint
  /** what is to be recorded of it; nothing where all of it is stored */
  make: (sign: (digest: Buffer) => Signature) => { records: SignedRecord[]; answer: A }
  /** in the commit of the records */
  recorded?: () => void
}

/**
 * Everything that is signed goes through here, and alone: freezes once more, the ledger, the rules about it, the limits; then the key
 * is opened, the signature made and checked, the records written with what they spend of limits and committed, and only then is it
 * given away.
 */
export function signInTurn<A>(inside: Inside, job: SigningJob<SignatureDraft<A>>): Promise<A> {
  const { keys, group, ledger, meters, unattended, now } = inside
  const { account, authority, chainId, order } = job
  const { userId, address } = account
  const { clientId, tokenId } = authority.caller ?? { clientId: null, tokenId: null }
  return group(order, () => {
    const at = now()
    const { policy, charges, unattendedWei, make, recorded } = draftNow(inside, job, at)
    // All of them before anything is written: a key that does not open refuses the whole request.
    const { records, answer } = make((digest) => keys.sign(account, digest))
    if (records.length === 0) return answer
    // Of an operation and its authorization the first takes the limits.
    let limits = { policy, spent: spentToText(charges) }
    for (const record of records) {
      const evidence = authority.evidence(record.rule)
      ledger.append({ at, userId, address, clientId, tokenId, evidence, ...limits, ...record })
      limits = { policy: null, spent: null }
    }
    meters.charge(at, charges)
    unattended.charge(chainId, unattendedWei)
    recorded?.()
    return answer
  })
}

/** What `signInTurn` would sign, as things are now. */
export function draftNow<D>({ freezes, assertUnattended }: Inside, job: SigningJob<D>, at: number): D {
  const { account, chainId, authority } = job
  // Once more: a freeze may have come while the token was looked at.
  freezes.assertMoves({ chainId, userId: account.userId })
  if (authority.waitsForList) assertUnattended()
  const { token } = authority
  if (token !== null) {
    freezes.assertMoves({ chainId, userId: token.userId })
    assertNotSuspended(freezes, token.clientId)
  }
  return job.draft(at)
}

/** What a dry run is told. */
export const toChecked = ({ rule, stored, limits }: SignatureDraft<unknown>): Omit<Checked, 'kind'> => ({
  rule,
  stored,
  ...(limits.length === 0 ? {} : { limits }),
})

/** The account that is to sign, and what was shown for it. That there is none is said to who may know. */
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
