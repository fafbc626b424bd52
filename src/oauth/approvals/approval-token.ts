import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { issuerOf, type App } from '../../app.ts'
import type { ApprovalQuestion } from '../../approvals/decide.ts'
import { APPROVAL_TOKEN_SECONDS } from '../../approvals/ask.ts'
import { APPROVAL_TOKEN_TYPE, type ApprovalClaims } from '../../signer-wire/approval.ts'
import { EXPORT_AUDIENCE } from '../../signer-wire/wire.ts'
import type { PrivateKeys } from '../keys.ts'

/**
 * Issues an approval token: the proof for the signer that the user approved one request. It is no access token, and only the signer
 * accepts it. The caller must have checked the form and a recent sign-in.
 * @param digest  digest of the displayed content
 */
export async function approvalToken(
  app: Pick<App, 'authOrigin' | 'clock'>,
  { keys }: PrivateKeys,
  { userId, approval, digest }: { userId: string; approval: ApprovalQuestion; digest: string },
): Promise<string> {
  const key = keys.find(({ alg }) => alg === 'ES256')!
  const now = Math.floor(app.clock.wall() / 1_000)
  const { clientId, chainId, intentId } = approval
  const claims: ApprovalClaims = { client_id: clientId, chain_id: chainId, intent: intentId, digest }
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'ES256', typ: APPROVAL_TOKEN_TYPE, kid: key.kid })
    .setIssuer(issuerOf(app))
    .setAudience(EXPORT_AUDIENCE)
    .setSubject(userId)
    .setJti(randomUUID())
    .setIssuedAt(now)
    .setExpirationTime(now + APPROVAL_TOKEN_SECONDS)
    .sign(await importJWK(key, 'ES256'))
}
