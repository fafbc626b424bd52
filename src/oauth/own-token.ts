import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { OWN_CLIENT } from '../ids.ts'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { AppError } from '../errors.ts'
import { assertNotFrozen, assertUser, verifyAccessToken, type Caller } from '../http/bearer.ts'
import type { PrivateKeys } from './keys.ts'
import { SPENDS } from './scopes.ts'

/** Lifetime in seconds: long enough for one request. */
const LIFE_SECONDS = 60

/**
 * Returns the caller that a token of `ownToken` stands for. It is verified like any other access token, so revocations
 * and freezes apply to it.
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

/**
 * Issues an access token of our own client for one request from the account pages to the API or the signer. Issue one
 * that can spend only after the form and a recent sign-in were checked.
 * @param sessionUid  null: the token can only read
 */
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
