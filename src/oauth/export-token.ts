import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { issuerOf, type App } from '../app.ts'
import { EXPORT_AUDIENCE, EXPORT_TOKEN_TYPE } from '../signer-wire/wire.ts'
import { OWN_CLIENT } from './first-party.ts'
import type { PrivateKeys } from './keys.ts'
import type { Visitor } from './sessions.ts'

/** Long enough for one question to the signer. */
const LIFE_SECONDS = 60

/** What a token for the export of a key is for: to ask for it, or to fetch it, sealed to this public key, for that request. */
type ExportStep = { purpose: 'ask' } | { purpose: 'take'; request: string; recipient: string }

/**
 * Someone on their own account page, to the signer, for one step of an export and nothing else: it is no access token. It says
 * when they signed in, which the signer checks again.
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
