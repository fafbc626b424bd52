import type { KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import type { ClientAuth } from 'openid-client'
import { type Clock } from '../../clock.ts'

/** The private key that is registered with Apple, and the ids that Apple gave the key and the team. */
export type AppleKey = { teamId: string; keyId: string; key: KeyObject }

/** Lifetime of a client secret, in seconds. Apple accepts half a year; one request needs a moment. */
const SECRET_SECONDS = 300

/**
 * Authenticates the client with a secret that is a signed JWT, made for each request.
 * Source: Apple, "Creating a client secret"
 */
export const appleProof =
  ({ teamId, keyId, key }: AppleKey, { wall }: Clock): ClientAuth =>
  async (_as, { client_id: clientId }, body) => {
    const now = Math.floor(wall() / 1_000)
    const secret = await new SignJWT()
      .setProtectedHeader({ alg: 'ES256', kid: keyId })
      .setIssuer(teamId)
      .setSubject(clientId)
      .setAudience('https://appleid.apple.com')
      .setIssuedAt(now)
      .setExpirationTime(now + SECRET_SECONDS)
      .sign(key)
    body.set('client_id', clientId)
    body.set('client_secret', secret)
  }
