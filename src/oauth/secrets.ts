import { createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto'
import { sha256 } from '../sha256.ts'
import { derive } from './keys.ts'

export type Secrets = {
  /** Returns the CSRF token in the forms of one interaction. */
  csrfToken: (uid: string) => string
  isCsrfTokenRight: (uid: string, token: unknown) => boolean
  /** Returns the refresh token that follows a used one. */
  successorOf: (refreshToken: string) => string
}

/**
 * Opens the secrets that are derived instead of stored.
 *
 * A CSRF token is derived from its interaction. Another site can neither compute it nor make a browser present another
 * interaction, whose cookie is signed and bound to its path.
 *
 * The successor of a refresh token is derived from the token and a key outside the database. So a second request with
 * the token, within the grace time and on any replica, gets the same successor. The database holds no refresh token,
 * not even encrypted. An attacker who reads it has hashes. An attacker who also has the key still lacks the used token.
 * @param cookieKeys  newest first
 */
export function openSecrets(cookieKeys: string[]): Secrets {
  const csrfKeys = cookieKeys.map((key) => createSecretKey(derive(key, 'forms')))
  const refreshKey = createSecretKey(derive(cookieKeys[0]!, 'refresh tokens'))
  const tokenOf = (uid: string, key: KeyObject): string => createHmac('sha256', key).update(uid).digest('base64url')
  return {
    csrfToken: (uid) => tokenOf(uid, csrfKeys[0]!),
    // Accepts every key in force: a page that was open during a key rotation can still be submitted.
    isCsrfTokenRight: (uid, token) =>
      typeof token === 'string' &&
      csrfKeys.map((key) => timingSafeEqual(sha256(token), sha256(tokenOf(uid, key)))).includes(true),
    successorOf: (refreshToken) => createHmac('sha256', refreshKey).update(refreshToken).digest('base64url'),
  }
}
