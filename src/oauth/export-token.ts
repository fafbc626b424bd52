import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { OWN_CLIENT } from '../ids.ts'
import { issuerOf, type App } from '../app.ts'
import { EXPORT_AUDIENCE, EXPORT_TOKEN_TYPE } from '../signer-wire/wire.ts'
import type { PrivateKeys } from './keys.ts'
import type { Visitor } from './sessions.ts'

/** Lifetime in seconds: long enough for one request to the signer. */
const LIFE_SECONDS = 60

/** A step of a key export: requesting it, or taking the key of that request, sealed to this public key. */
type ExportStep = { purpose: 'ask' } | { purpose: 'take'; request: string; recipient: string }

/**
 * Issues a token for one step of a key export by a user of the account pages. Only the signer accepts it: it is no
 * access token. It includes when the user signed in, which the signer checks again.
 */
export async function exportToken(
  app: Pick<App, 'authOrigin' | 'clock' | 'origin'>,
  { keys }: PrivateKeys,
  { user, sessionUid, signedInAt }: Visitor,
  step: ExportStep,
): Promise<string> {
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const now = Math.floor(app.clock.wall() / 1_000)
  return new SignJWT({ client_id: OWN_CLIENT, gid: `account ${sessionUid}`, auth_time: signedInAt, ...step })
    .setProtectedHeader({ alg: 'ES256', typ: EXPORT_TOKEN_TYPE, kid: key.kid })
    .setIssuer(issuerOf(app))
    .setAudience(EXPORT_AUDIENCE)
    .setSubject(user.userId)
    .setJti(randomUUID())
    .setIssuedAt(now)
    .setExpirationTime(now + LIFE_SECONDS)
    .sign(await importJWK(key, 'ES256'))
}
