import { createPrivateKey, hash, sign, type KeyObject } from 'node:crypto'
import { KekUnavailable, type KekSetting } from './provider.ts'
import { readOrigin } from './remote-uri.ts'
import { readSecret, readToken } from './secret.ts'
import { askService, readCa, type Patience } from './service.ts'
import { systemClock } from '../../clock.ts'

/** Access tokens for Google Cloud: from a file that another program renews, or from the key of a service account. */
export type GcpTokens = {
  /** returns a valid token. @throws KekUnavailable */
  current: () => Promise<string>
  /** discards the cached token. @returns false if tokens come from a file, which has no other */
  forget: () => boolean
  /** the setting that they come from, for error messages */
  named: string
}

type ServiceAccount = { email: string; keyId: string; key: KeyObject; tokenUri: URL }

const SCOPE = 'https://www.googleapis.com/auth/cloudkms'
const LIFETIME_SECONDS = 3_600
/** A token is not used in its last minute, because clocks differ. */
const SPARE_MS = 60_000

/** Opens the access tokens of a setting. @param patience  for the token endpoint */
export function openGcpTokens(
  { tokenFile, credentialsFile, caFile, name }: Extract<KekSetting, { provider: 'gcp-kms' }>,
  patience: Patience,
): GcpTokens {
  if (tokenFile !== undefined) {
    const named = `${name}_TOKEN_FILE`
    return { named, current: async () => readToken(tokenFile, named), forget: () => false }
  }
  const named = `${name}_CREDENTIALS_FILE`
  let kept: { of: string; token: string; until: number } | null = null
  return {
    named,
    async current() {
      const { account, of } = readAccount(credentialsFile!, named)
      if (kept !== null && kept.of === of && systemClock.wall() < kept.until) return kept.token
      const { token, seconds } = await exchange(account, { ca: readCa(caFile, name), patience, named })
      kept = { of, token, until: systemClock.wall() + seconds * 1_000 - SPARE_MS }
      return token
    },
    forget() {
      kept = null
      return true
    },
  }
}

/**
 * Exchanges a signed assertion for an access token. Source: RFC 7523 §2.1, and Google's "Using OAuth 2.0 for server to server
 * applications"
 */
async function exchange(
  account: ServiceAccount,
  { ca, patience, named }: { ca: Buffer | null; patience: Patience; named: string },
): Promise<{ token: string; seconds: number }> {
  const { origin, host, pathname } = account.tokenUri
  const service = { name: 'The token endpoint of GCP', origin: new URL(origin), socketPath: null, ca }
  const make = () => ({
    method: 'POST' as const,
    path: pathname,
    headers: { host, 'content-type': 'application/x-www-form-urlencoded' },
    body: Buffer.from(`grant_type=${encodeURIComponent('urn:ietf:params:oauth:grant-type:jwt-bearer')}&assertion=${assertionOf(account)}`), // prettier-ignore
  })
  const { status, body } = await askService(service, make, { patience })
  if (status !== 200)
    throw new KekUnavailable(`GCP issued no access token (status ${status}): the key in ${named} is wrong or revoked, or the clock of this machine is.`) // prettier-ignore
  let answer: { access_token?: unknown; expires_in?: unknown; token_type?: unknown } = {}
  try {
    answer = JSON.parse(body.toString('utf8')) as typeof answer
  } catch {
    // Handled below, like any response without a token.
  }
  const { access_token: token, expires_in: seconds, token_type: type } = answer
  if (
    typeof token !== 'string' ||
    !/^[\x21-\x7e]+$/.test(token) ||
    typeof seconds !== 'number' ||
    !/^bearer$/i.test(String(type))
  )
    // prettier-ignore
    throw new KekUnavailable('The response of GCP’s token endpoint is incomplete.')
  return { token, seconds }
}

/** Signs the assertion: RFC 7515, RS256. */
function assertionOf({ email, keyId, key, tokenUri }: ServiceAccount): string {
  const iat = Math.floor(systemClock.wall() / 1_000)
  const claims = { iss: email, scope: SCOPE, aud: tokenUri.href, iat, exp: iat + LIFETIME_SECONDS }
  const text = [{ alg: 'RS256', typ: 'JWT', kid: keyId }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  return `${text}.${sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')}`
}

/** Reads the key of a service account in Google's JSON format. @throws KekUnavailable  naming the setting, never the content */
function readAccount(file: string, setting: string): { account: ServiceAccount; of: string } {
  const bytes = readSecret(file, setting)
  try {
    const { type, client_email: email, private_key_id: keyId, private_key: pem, token_uri: tokenUri } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown> // prettier-ignore
    if (type !== 'service_account' || ![email, keyId, pem, tokenUri].every((part) => typeof part === 'string')) throw new Error('another kind') // prettier-ignore
    const key = createPrivateKey(pem as string)
    if (key.asymmetricKeyType !== 'rsa') throw new Error('another kind of key')
    const account = { email: email as string, keyId: keyId as string, key, tokenUri: readOrigin(tokenUri as string) }
    return { account, of: hash('sha256', bytes, 'hex') }
  } catch {
    throw new KekUnavailable(`${setting} must be the key of a service account (JSON) with an RSA key and an https token_uri.`) // prettier-ignore
  } finally {
    bytes.fill(0)
  }
}
