import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { findApplication, noteUser } from '../applications/registry.ts'
import { signIn } from '../users/sign-in.ts'
import type { PrivateKeys } from './keys.ts'
import { domainsClaim, grantable } from './scopes.ts'

/**
 * Issues an access token for a user of the development identity provider without a browser; `npm start` prints it. It
 * has the claims of a token from the token endpoint, and is bound to no key.
 * @throws Error  in production, or for an unknown application
 */
export async function issueToken(
  app: App,
  { keys }: PrivateKeys,
  { username, clientId }: { username: string; clientId: string },
): Promise<{ token: string; userId: string }> {
  const application = await findApplication(app, clientId)
  if (application === null || app.config.NODE_ENV === 'production')
    throw new Error('tokens are issued here in development mode only')
  const { userId, accountId } = await signIn(app, {
    provider: 'DEV',
    subject: username,
    username,
    imageSrc: `${app.origin}/devnet/avatar/${encodeURIComponent(username)}.svg`,
    email: `${username}@dev.invalid`,
    emailVerified: true,
  })
  await noteUser(app.db, { clientId, accountId })
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const scope = ['openid', 'email', ...grantable(application)].join(' ')
  const token = await new SignJWT({
    client_id: clientId,
    scope,
    ...domainsClaim(scope, application),
    chain_id: application.chainId,
    gid: `development-${randomUUID()}`,
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: key.kid })
    .setIssuer(issuerOf(app))
    .setAudience(audienceOf(app.origin))
    .setSubject(userId)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime(Math.floor(app.clock.wall() / 1_000) + app.config.ACCESS_TOKEN_SECONDS)
    .sign(await importJWK(key, 'ES256'))
  return { token, userId }
}
