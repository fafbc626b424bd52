import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { assertNotFrozen, assertUser, verifyAccessToken, type Caller } from '../http/bearer.ts'
import { OWN_CLIENT } from './first-party.ts'
import type { PrivateKeys } from './keys.ts'

/** Long enough for one request to sign with. */
const LIFE_SECONDS = 60

/**
 * Someone on their own account page, as the engine and the signer know callers: by an access token, of our own client,
 * that never leaves this program. It is made for one request of a fresh session whose form was checked, and is verified
 * as any other: revocations and freezes hold for it too.
 * @throws account_frozen, invalid_token
 */
export async function ownCaller(
  app: App,
  { keys }: PrivateKeys,
  { userId, sessionUid, chainId }: { userId: string; sessionUid: string; chainId: number },
): Promise<Caller> {
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const now = Math.floor(app.now() / 1_000)
  const token = await new SignJWT({
    client_id: OWN_CLIENT,
    scope: 'contracts:write',
    chain_id: chainId,
    gid: `account ${sessionUid}`,
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid })
    .setIssuer(issuerOf(app.origin))
    .setAudience(audienceOf(app.origin))
    .setSubject(userId)
    .setJti(randomUUID())
    .setIssuedAt(now)
    .setExpirationTime(now + LIFE_SECONDS)
    .sign(await importJWK(key, 'ES256'))
  const caller = await verifyAccessToken(app, token)
  assertUser(caller)
  assertNotFrozen(app, caller)
  return caller
}
