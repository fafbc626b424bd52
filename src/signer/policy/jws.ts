import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { PolicyInvalid, readPolicyJson } from './json.ts'

/** A public key that policies may be signed with; no other members are stored. */
export type PolicyKey = { kty: 'OKP'; crv: 'Ed25519'; x: string }

/** The trusted policy keys, and how many of them must sign a policy. */
export type PolicyTrust = { threshold: number; keys: PolicyKey[] }

/** A signed policy; its signatures are not verified yet. */
type SignedPolicy = { payload: string; signatures: { protected: string; signature: string }[] }

/** The `typ` of policy signatures, so that nothing else that these keys sign can pass as a policy. */
const TYPE = 'chatelaine-policy'
const MAX_SIGNATURES = 64
const BASE64URL = /^[\w-]*$/

/** Computes the base64url of the SHA-256 of a document's exact bytes. */
export const hashOfPolicy = (text: string): string => createHash('sha256').update(text, 'utf8').digest('base64url')

/**
 * Reads the public part of a private or public key in JWK form.
 * @throws PolicyInvalid  which does not repeat the text
 */
export function readPolicyKey(value: unknown): PolicyKey {
  const { kty, crv, x } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof x !== 'string' || !/^[\w-]{43}$/.test(x))
    throw new PolicyInvalid('', 'expected an Ed25519 key as a JSON web key')
  // Another spelling of the last character would be a second key of the same signer.
  if (Buffer.from(x, 'base64url').toString('base64url') !== x)
    throw new PolicyInvalid('', 'expected an Ed25519 key as a JSON web key')
  return { kty, crv, x }
}

/** Adds a signature to a document or a signed policy. @throws PolicyInvalid  if that key has already signed it */
export function addSignature(text: string, privateKey: Record<string, unknown>): string {
  const kid = jwkThumbprint(readPolicyKey(privateKey))
  const before: SignedPolicy = isSigned(text)
    ? readSigned(text)
    : { payload: Buffer.from(text, 'utf8').toString('base64url'), signatures: [] }
  if (before.signatures.some((one) => headerOf(one.protected)?.kid === kid))
    throw new PolicyInvalid('', 'this key has signed it already')
  const header = Buffer.from(JSON.stringify({ alg: 'EdDSA', typ: TYPE, kid }), 'utf8').toString('base64url')
  const key = createPrivateKey({ key: privateKey, format: 'jwk' })
  const signature = sign(null, Buffer.from(`${header}.${before.payload}`, 'latin1'), key).toString('base64url')
  return `${JSON.stringify({ ...before, signatures: [...before.signatures, { protected: header, signature }] }, null, 2)}\n`
}

/** Returns whether a file is a JWS rather than a document; it does not tell whether either is valid. */
export function isSigned(text: string): boolean {
  const value = readPolicyJson(text)
  return typeof value === 'object' && value !== null && 'payload' in value && 'signatures' in value
}

/**
 * Opens a JWS (RFC 7515, general JSON serialization; RFC 8037, EdDSA). Returns its document and the trusted keys that signed it; a
 * key counts once, however often it signed.
 * @throws PolicyInvalid  if it is not a signed policy
 */
export function openSigned(text: string, keys: readonly PolicyKey[]): { document: string; signers: string[] } {
  const { payload, signatures } = readSigned(text)
  const trusted = new Map(keys.map((key) => [jwkThumbprint(key), key]))
  const signers = new Set<string>()
  for (const one of signatures) {
    const kid = headerOf(one.protected)?.kid
    const key = kid === undefined ? undefined : trusted.get(kid)
    if (key !== undefined && isGood(`${one.protected}.${payload}`, one.signature, publicKeyOf(key))) signers.add(kid!)
  }
  const bytes = Buffer.from(payload, 'base64url')
  const document = bytes.toString('utf8')
  // Different bytes that decode to the same text would have different hashes.
  if (!Buffer.from(document, 'utf8').equals(bytes)) throw new PolicyInvalid('', 'its payload is not UTF-8')
  return { document, signers: [...signers] }
}

const publicKeyOf = (key: PolicyKey): KeyObject => createPublicKey({ key, format: 'jwk' })

function isGood(input: string, signature: string, key: KeyObject): boolean {
  const bytes = Buffer.from(signature, 'base64url')
  return bytes.length === 64 && verify(null, Buffer.from(input, 'latin1'), key, bytes)
}

/** Parses a signature's header; null if it is not ours, so that the signature does not count. */
function headerOf(text: string): { kid: string } | null {
  try {
    const { alg, typ, kid, ...rest } = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as Record<string, unknown> // prettier-ignore
    // `crit` and `b64` change what is signed (RFC 7515 §4.1.11, RFC 7797).
    const isOurs = (alg === 'EdDSA' || alg === 'Ed25519') && typ === TYPE && Object.keys(rest).length === 0
    return isOurs && typeof kid === 'string' ? { kid } : null
  } catch {
    return null
  }
}

function readSigned(text: string): SignedPolicy {
  const value = readPolicyJson(text) as Partial<Record<keyof SignedPolicy, unknown>> | null
  const { payload, signatures, ...rest } = value ?? {}
  if (
    typeof payload !== 'string' ||
    !BASE64URL.test(payload) ||
    !Array.isArray(signatures) ||
    Object.keys(rest).length > 0
  )
    // prettier-ignore
    throw new PolicyInvalid('', 'expected a JWS in its general JSON form: payload and signatures')
  if (signatures.length > MAX_SIGNATURES) throw new PolicyInvalid('signatures', `has more than ${MAX_SIGNATURES}`)
  return {
    payload,
    signatures: signatures.map((one: unknown, index) => {
      const { protected: header, signature, ...others } = (one ?? {}) as Record<string, unknown>
      const isText = typeof header === 'string' && typeof signature === 'string'
      if (!isText || !BASE64URL.test(header) || !BASE64URL.test(signature) || Object.keys(others).length > 0)
        throw new PolicyInvalid(`signatures[${index}]`, 'expected protected and signature alone')
      return { protected: header, signature }
    }),
  }
}
