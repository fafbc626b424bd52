import { createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto'
import { sha256 } from '../sha256.ts'
import { derive } from './keys.ts'

export type Secrets = {
  /** The token in the forms of one interaction. */
  csrfToken: (uid: string) => string
  isCsrfTokenRight: (uid: string, token: unknown) => boolean
  /** The refresh token that follows a used one. */
  successorOf: (refreshToken: string) => string
}

/**
 * What is derived instead of stored.
 *
 * A form's token is a function of the interaction it belongs to. Another site can neither compute it nor make a
 * browser present another interaction: that one's cookie is signed and bound to its path.
 *
 * A refresh token's successor is a function of the token itself and a key that is not in the database. So the second
 * request with one token, within the grace time and on any replica, is given the very same successor, and no refresh
 * token lies in the database, not even encrypted: who reads it has hashes, who also has the key lacks the old token.
 */
export function openSecrets(cookieKeys: string[]): Secrets {
  const csrfKeys = cookieKeys.map((key) => createSecretKey(derive(key, 'forms')))
  const refreshKey = createSecretKey(derive(cookieKeys[0]!, 'refresh tokens'))
  const tokenOf = (uid: string, key: KeyObject): string => createHmac('sha256', key).update(uid).digest('base64url')
  return {
    csrfToken: (uid) => tokenOf(uid, csrfKeys[0]!),
    // With every live key: a page that was open while the keys were changed can still be sent.
    isCsrfTokenRight: (uid, token) =>
      typeof token === 'string' &&
      csrfKeys.map((key) => timingSafeEqual(sha256(token), sha256(tokenOf(uid, key)))).includes(true),
    successorOf: (refreshToken) => createHmac('sha256', refreshKey).update(refreshToken).digest('base64url'),
  }
}
