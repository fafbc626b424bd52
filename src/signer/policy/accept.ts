import { isDeepStrictEqual } from 'node:util'
import { readPolicy, type PolicyDocument } from './document.ts'
import { PolicyInvalid } from './json.ts'
import { hashOfPolicy, isSigned, openSigned, type PolicyTrust } from './jws.ts'

/** A document that is in force, or might be. */
export type PolicyVersion = { document: PolicyDocument; /** as it was written */ text: string; hash: string }

/** What a file says beside what is in force. */
export type PolicyOffer = { is: 'newer'; offer: PolicyVersion } | { is: 'in force' }

/**
 * Whether a file may replace the policy in force: newer, and signed by as many as it takes. One signature is enough for the very
 * next version that freezes more and changes nothing else: who has one key can stop payments and not start them, and takes one
 * number of a version for each thing that is frozen.
 * @param isPlainTaken  in development a document needs no signature
 * @throws PolicyInvalid
 */
export function readOffer(
  text: string,
  { inForce, trust, isPlainTaken }: { inForce: PolicyVersion | null; trust: PolicyTrust; isPlainTaken: boolean },
): PolicyOffer {
  const signed = isSigned(text) ? openSigned(text, trust.keys) : null
  if (signed === null && !isPlainTaken) throw new PolicyInvalid('', 'it is not signed: chatelaine policy sign')
  const offer = readPolicyVersion(signed?.document ?? text)
  const { version } = offer.document
  if (inForce !== null) {
    const now = inForce.document.version
    if (version < now) throw new PolicyInvalid('version', `${version} is older than ${now}, which is in force`)
    if (version === now && offer.hash === inForce.hash) return { is: 'in force' }
    if (version === now)
      throw new PolicyInvalid('version', `another document has the version ${now}, which is in force`)
  }
  if (signed !== null) assertSigned(offer, signed.signers, { inForce, trust })
  return { is: 'newer', offer }
}

/** @throws PolicyInvalid */
export const readPolicyVersion = (text: string): PolicyVersion => ({
  document: readPolicy(text),
  text,
  hash: hashOfPolicy(text),
})

function assertSigned(
  offer: PolicyVersion,
  signers: readonly string[],
  { inForce, trust: { threshold, keys } }: { inForce: PolicyVersion | null; trust: PolicyTrust },
): void {
  if (keys.length === 0) throw new PolicyInvalid('', 'no key for policies is trusted: chatelaine signer policy-keys')
  const needed = inForce !== null && freezesMore(inForce, offer) ? 1 : threshold
  if (signers.length < needed)
    throw new PolicyInvalid('', `${signers.length} of ${keys.length} trusted keys signed it, and ${needed} have to`)
}

/** Whether a document freezes what the other does and at least one thing more, and is the same besides. */
function freezesMore(before: PolicyVersion, after: PolicyVersion): boolean {
  const [a, b] = [before.document.freeze, after.document.freeze]
  return (
    after.document.version === before.document.version + 1 &&
    isDeepStrictEqual(besides(before), besides(after)) &&
    (b.everything || !a.everything) &&
    isWithin(a.users, b.users) &&
    isWithin(a.clients, b.clients) &&
    isWithin(a.chains, b.chains) &&
    sizeOf(b) > sizeOf(a)
  )
}

const sizeOf = ({ users, clients, chains, everything }: PolicyVersion['document']['freeze']): number =>
  users.size + clients.size + chains.size + Number(everything)

const isWithin = <T>(some: ReadonlySet<T>, all: ReadonlySet<T>): boolean => [...some].every((one) => all.has(one))

/** Of the text, not of what was read of it: nothing that a later version may read differs. */
function besides({ text }: PolicyVersion): Record<string, unknown> {
  const { version: _version, freeze: _freeze, ...rest } = JSON.parse(text) as Record<string, unknown>
  return rest
}
