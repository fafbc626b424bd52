import { crc32c } from './crc32c.ts'
import { openGcpTokens, type GcpTokens } from './gcp-token.ts'
import { KekUnavailable, NotItsOwn, type Kek, type KekSetting } from './provider.ts'
import { readWithSecret, writeWithSecret } from './secret-json.ts'
import { askService, PATIENCE, readCa, type Patience, type ServiceAnswer } from './service.ts'

type GcpKmsSetting = Extract<KekSetting, { provider: 'gcp-kms' }>

/** Maximum attempts if checksums do not match, because a network or machine altered bytes. */
const MAX_TRIES = 3

/**
 * Opens a symmetric key in Google Cloud KMS. Wrapped bytes are the ciphertext, which names its key version. KMS wraps by the
 * primary version and unwraps by any enabled version. Requests and responses have checksums (CRC32C), which their receiver
 * verifies.
 * Source: Cloud KMS REST reference, cryptoKeys.encrypt and decrypt; "Verifying end-to-end data integrity"
 */
export function openGcpKms(setting: GcpKmsSetting, patience: Patience = PATIENCE): Kek {
  const { key, endpoint } = setting.uri
  const tokens = openGcpTokens(setting, patience)
  return {
    provider: 'gcp-kms',
    isVersioned: true,
    wrap: (dek, aad) => untilWhole(() => encrypt(dek, aad)),
    unwrap: (wrapped, aad) => untilWhole(() => decrypt(wrapped, aad)),
  }

  /** @returns null if a checksum does not match */
  async function encrypt(dek: Buffer, aad: Buffer): Promise<Buffer | null> {
    const fields = { plaintextCrc32c: String(crc32c(dek)), ...ofAad(aad) }
    const { json } = await ask('encrypt', () => writeWithSecret({ field: 'plaintext', bytes: dek }, fields))
    const { name, ciphertext: text, ciphertextCrc32c: sum } = json
    if (typeof text !== 'string' || typeof name !== 'string' || !/^[A-Za-z0-9+/]{20,65536}={0,2}$/.test(text)) throw withoutIt() // prettier-ignore
    if (!name.startsWith(`${key}/cryptoKeyVersions/`)) throw new KekUnavailable('GCP KMS responded for another key than requested.') // prettier-ignore
    const ciphertext = Buffer.from(text, 'base64')
    const isWhole =
      json.verifiedPlaintextCrc32c === true &&
      json.verifiedAdditionalAuthenticatedDataCrc32c === true &&
      String(sum) === String(crc32c(ciphertext))
    return isWhole ? ciphertext : null
  }

  async function decrypt(wrapped: Buffer, aad: Buffer): Promise<Buffer | null> {
    const fields = { ciphertext: wrapped.toString('base64'), ciphertextCrc32c: String(crc32c(wrapped)), ...ofAad(aad) }
    const { json, secret } = await ask('decrypt', () => Buffer.from(JSON.stringify(fields)))
    if (secret === null) throw withoutIt()
    if (String(json.plaintextCrc32c) === String(crc32c(secret))) return secret
    secret.fill(0)
    return null
  }

  async function ask(verb: 'encrypt' | 'decrypt', body: () => Buffer) {
    const service = { name: 'GCP KMS', origin: new URL(endpoint.origin), socketPath: null, ca: readCa(setting.caFile, setting.name) } // prettier-ignore
    const once = () =>
      askService(
        service,
        async () => ({
          method: 'POST',
          path: `/v1/${key}:${verb}`,
          headers: {
            host: endpoint.host,
            'content-type': 'application/json',
            authorization: `Bearer ${await tokens.current()}`,
          },
          body: body(),
        }),
        { patience },
      )
    let answer = await once()
    // The token may have been revoked before it expired; a new one may work.
    if (answer.status === 401 && tokens.forget()) answer = await once()
    const refusal = answer.status === 200 ? null : refusalOf(answer, tokens)
    if (refusal !== null) throw refusal
    const read = readWithSecret(answer.body, 'plaintext')
    return { json: (read.json ?? {}) as Record<string, unknown>, secret: read.secret }
  }
}

async function untilWhole(attempt: () => Promise<Buffer | null>): Promise<Buffer> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const whole = await attempt()
    if (whole !== null) return whole
  }
  throw wrongChecksum()
}

const ofAad = (aad: Buffer) => ({
  additionalAuthenticatedData: aad.toString('base64'),
  additionalAuthenticatedDataCrc32c: String(crc32c(aad)),
})

const withoutIt = (): KekUnavailable => new KekUnavailable('The response of GCP KMS is incomplete.')
const wrongChecksum = (): KekUnavailable => new KekUnavailable('A checksum (CRC32C) of the data that GCP KMS received or returned does not match.') // prettier-ignore

function refusalOf({ status, body }: ServiceAnswer, { named }: GcpTokens): Error {
  let error: { status?: unknown; message?: unknown } = {}
  try {
    error = (JSON.parse(body.toString('utf8')) as { error?: typeof error }).error ?? {}
  } catch {
    // A 400 in HTML comes from something in between, such as a proxy.
  }
  const code = /^[A-Z_]{1,64}$/.exec(String(error.status))?.[0] ?? `status ${status}`
  const message = String(error.message)
  if (code === 'UNAUTHENTICATED' || status === 401)
    return new KekUnavailable(`GCP KMS denies access: the token from ${named} is wrong or has expired (${code}).`)
  if (code === 'PERMISSION_DENIED')
    return new KekUnavailable(`GCP KMS denies access: the account of ${named} may not encrypt and decrypt with the key (${code}).`) // prettier-ignore
  if (code === 'NOT_FOUND') return new KekUnavailable(`GCP KMS does not have the key in the setting (${code}).`)
  if (code === 'FAILED_PRECONDITION')
    return new KekUnavailable(`The key in GCP KMS, or the version that wrapped, is disabled or destroyed (${code}).`)
  if (code === 'INVALID_ARGUMENT' && /crc32c|checksum/i.test(message)) return wrongChecksum()
  if (code === 'INVALID_ARGUMENT' && /decrypt/i.test(message)) return new NotItsOwn()
  return new KekUnavailable(`GCP KMS responded with an error (${code}).`)
}
