import { createPublicKey, generateKeyPairSync, randomBytes, verify } from 'node:crypto'
import type { Certificate } from '../certificate.ts'
import { sameBytes, standIn, strictBase64, versionedKey, type Received, type Reply } from './server.ts'

const NAME = 'projects/example-custody/locations/europe-west3/keyRings/chatelaine/cryptoKeys/kek'
const EMAIL = 'signer@example-custody.iam.gserviceaccount.com'
const SCOPE = 'https://www.googleapis.com/auth/cloudkms'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
// Once for all: making one takes up to a second.
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 })

/** Stands in for Cloud KMS and for the token endpoint: verifies the assertion, computes every checksum by a table of its own. Google itself was never asked. */
export async function gcpKmsStandIn(
  t: { after: (end: () => void | Promise<void>) => void },
  { tls }: { tls?: Certificate } = {},
) {
  const key = versionedKey()
  /** access tokens that are good */
  const tokens = new Set<string>()
  const disabled = new Set<number>()
  const server = await standIn(t, { ...(tls === undefined ? {} : { tls }), answer, refuse })
  const host = server.origin.replace(/^https?:\/\//, '')
  return {
    ...server,
    ...{ key, tokens, disabled },
    uri: `gcp-kms:${NAME}?endpoint=${server.origin}`,
    credentials: (pem: string = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()) =>
      JSON.stringify({ type: 'service_account', project_id: 'example-custody', private_key_id: 'first', private_key: pem, client_email: EMAIL, client_id: '1', token_uri: `${server.origin}/token` }), // prettier-ignore
    exchanges: () => server.received.filter(({ path }) => path === '/token').length,
  }

  function answer(asked: Received, fault: (what: string) => void, how: string | null): Reply {
    if (asked.path === '/token') return exchange(asked, fault)
    const [, verb] = /^\/v1\/(?:.*):(encrypt|decrypt)$/.exec(asked.path) ?? []
    if (asked.method !== 'POST' || verb === undefined || asked.path !== `/v1/${NAME}:${verb}`)
      return error(404, 'NOT_FOUND')
    const [, token = ''] = /^Bearer (\S+)$/.exec(asked.headers.authorization ?? '') ?? []
    if (!tokens.has(token)) return error(401, 'UNAUTHENTICATED')
    const said = JSON.parse(asked.body.toString('utf8')) as Record<string, string>
    const aad = strictBase64(said.additionalAuthenticatedData, fault)
    const bytes = strictBase64(verb === 'encrypt' ? said.plaintext : said.ciphertext, fault)
    const [own, ofAad] = [String(checksum(bytes)), String(checksum(aad))]
    const bound = { additionalAuthenticatedData: aad.toString('base64'), additionalAuthenticatedDataCrc32c: ofAad }
    const headers = { host, 'content-type': 'application/json', authorization: `Bearer ${token}` }
    const body =
      verb === 'encrypt'
        ? { plaintext: said.plaintext, plaintextCrc32c: own, ...bound }
        : { ciphertext: said.ciphertext, ciphertextCrc32c: own, ...bound }
    sameBytes(asked, { headers, body }, fault)
    const more = how === 'spoils a checksum' ? 1 : 0
    const shared = { protectionLevel: 'HSM' }
    if (verb === 'encrypt') {
      const sealed = key.seal(bytes, aad)
      const ciphertext = Buffer.concat([Buffer.of(0x0a, key.newest()), sealed])
      return {
        status: 200,
        json: {
          name: `${how === 'answers for another key' ? NAME.replace('kek', 'other') : NAME}/cryptoKeyVersions/${key.newest()}`,
          ciphertext: ciphertext.toString('base64'),
          ciphertextCrc32c: String(checksum(ciphertext) + more),
          verifiedPlaintextCrc32c: true,
          verifiedAdditionalAuthenticatedDataCrc32c: true,
          ...shared,
        },
      }
    }
    const version = bytes[1]!
    if (disabled.has(version)) return error(400, 'FAILED_PRECONDITION')
    const opened = bytes[0] === 0x0a ? key.open(version, bytes.subarray(2), aad) : null
    if (opened === null) return error(400, 'INVALID_ARGUMENT', 'Decryption failed: the ciphertext is invalid.')
    return {
      status: 200,
      json: { plaintext: opened.toString('base64'), plaintextCrc32c: String(checksum(opened) + more), usedPrimary: version === key.newest(), ...shared }, // prettier-ignore
    }
  }

  /** RFC 7523 §3. */
  function exchange({ method, headers, body }: Received, fault: (what: string) => void): Reply {
    const form = new URLSearchParams(body.toString('utf8'))
    if (method !== 'POST' || headers['content-type'] !== 'application/x-www-form-urlencoded') fault('the token endpoint is asked otherwise') // prettier-ignore
    const assertion = form.get('assertion') ?? ''
    if (body.toString('utf8') !== `grant_type=${encodeURIComponent(GRANT)}&assertion=${assertion}`) fault('the form of the token endpoint') // prettier-ignore
    const [head, claims, signature] = assertion.split('.')
    const read = (part: string | undefined) => JSON.parse(Buffer.from(part ?? '', 'base64url').toString('utf8')) as Record<string, unknown> // prettier-ignore
    if (JSON.stringify(read(head)) !== JSON.stringify({ alg: 'RS256', typ: 'JWT', kid: 'first' })) fault('the header of the assertion') // prettier-ignore
    const { iss, scope, aud, iat, exp, ...others } = read(claims) as Record<string, unknown> & { iat: number; exp: number } // prettier-ignore
    if (iss !== EMAIL || scope !== SCOPE || aud !== `${server.origin}/token` || Object.keys(others).length > 0) fault('a claim') // prettier-ignore
    if (Math.abs(iat - Date.now() / 1_000) > 300 || exp - iat > 3_600 || exp <= iat) fault('the times of the assertion')
    const isSigned = verify('RSA-SHA256', Buffer.from(`${head}.${claims}`), createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })), Buffer.from(signature ?? '', 'base64url')) // prettier-ignore
    if (!isSigned) return { status: 400, json: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } }
    const token = `ya29.${randomBytes(16).toString('base64url')}`
    tokens.add(token)
    return { status: 200, json: { access_token: token, expires_in: 3_599, token_type: 'Bearer' } }
  }

  function refuse(how: string): Reply {
    if (how === 'throttles') return error(429, 'RESOURCE_EXHAUSTED')
    if (how === 'denies') return error(403, 'PERMISSION_DENIED')
    return how === 'is disabled' ? error(400, 'FAILED_PRECONDITION') : error(404, 'NOT_FOUND')
  }
}

const error = (code: number, status: string, message = 'said with ya29. and names'): Reply => ({
  status: code,
  json: { error: { code, message, status } },
})

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let entry = byte
  for (let bit = 0; bit < 8; bit++) entry = (entry & 1) === 1 ? (entry >>> 1) ^ 0x82f63b78 : entry >>> 1
  return entry
})

/** CRC32C by a table. */
function checksum(bytes: Buffer): number {
  let sum = 0xffffffff
  for (const byte of bytes) sum = TABLE[(sum ^ byte) & 0xff]! ^ (sum >>> 8)
  return (sum ^ 0xffffffff) >>> 0
}
