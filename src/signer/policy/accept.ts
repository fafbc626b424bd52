import { isDeepStrictEqual } from 'node:util'
import { readPolicy, type PolicyDocument } from './document.ts'
import { PolicyInvalid } from './json.ts'
import { hashOfPolicy, isSigned, openSigned, type PolicyTrust } from './jws.ts'

/** A policy that is in force or is offered. */
export type PolicyVersion = { document: PolicyDocument; /** the original text */ text: string; hash: string }

/** The result of comparing a file with the policy in force. */
export type PolicyOffer = { is: 'newer'; offer: PolicyVersion } | { is: 'in force' }

/**
 * Decides whether a file may replace the policy in force: it must be newer and have enough signatures. One signature is enough for
 * the next version if it only adds freezes. So the holder of one key can stop payments, but cannot allow them, and uses one version
 * number per step.
 * @param isPlainTaken  true in development: a document needs no signature
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

/** Parses a policy document. @throws PolicyInvalid */
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

/** Returns whether a document keeps every freeze, adds at least one, and is otherwise the same. */
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

/** Compares the text rather than the parsed document, so that nothing that a later version may read can differ. */
function besides({ text }: PolicyVersion): Record<string, unknown> {
  const { version: _version, freeze: _freeze, ...rest } = JSON.parse(text) as Record<string, unknown>
  return rest
}
