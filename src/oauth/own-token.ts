import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { AppError } from '../errors.ts'
import { assertNotFrozen, assertUser, verifyAccessToken, type Caller } from '../http/bearer.ts'
import { OWN_CLIENT } from './first-party.ts'
import type { PrivateKeys } from './keys.ts'
import { SPENDS } from './scopes.ts'

/** Long enough for one request to sign with. */
const LIFE_SECONDS = 60

/**
 * Someone on their own account page, as the engine and the signer know callers: by an access token, of our own client,
 * that leaves for our own API at most. It is made for one request of a fresh session whose form was checked, and is verified
 * as any other: revocations and freezes hold for it too.
 * @throws account_frozen, invalid_token
 */
export async function ownCaller(app: App, token: string): Promise<Caller> {
  const caller = await verifyAccessToken(app, token)
  assertUser(caller)
  if (caller.clientId !== OWN_CLIENT)
    throw new AppError('invalid_token', 'The access token is not one of the account pages. Nothing was done.')
  if (caller.scopes.has(SPENDS)) assertNotFrozen(app, caller)
  return caller
}

/** @param sessionUid  null: for reading only */
export async function ownToken(
  app: Pick<App, 'authOrigin' | 'clock' | 'origin'>,
  { keys }: PrivateKeys,
  { userId, sessionUid, chainId }: { userId: string; sessionUid: string | null; chainId: number },
): Promise<string> {
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const now = Math.floor(app.clock.wall() / 1_000)
  return new SignJWT({
    client_id: OWN_CLIENT,
    scope: sessionUid === null ? '' : SPENDS,
    chain_id: chainId,
    gid: `account ${sessionUid ?? 'read'}`,
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid })
    .setIssuer(issuerOf(app))
    .setAudience(audienceOf(app.origin))
    .setSubject(userId)
    .setJti(randomUUID())
    .setIssuedAt(now)
    .setExpirationTime(now + LIFE_SECONDS)
    .sign(await importJWK(key, 'ES256'))
}
