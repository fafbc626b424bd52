import type { IncomingHttpHeaders } from 'node:http'
import { calculateJwkThumbprint, decodeProtectedHeader } from 'jose'
import { errors, type KoaContextWithOIDC, type Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { PROOF_SECONDS, ProofRefused, readProof } from '../http/dpop.ts'
import { spendOnce } from './spend-once.ts'

/**
 * Makes the library accept each DPoP proof once, even in concurrent requests: the library itself checks and notes it in
 * two steps. The library accepts proofs up to five minutes before and after its own time. So a proof is remembered for
 * twice that time.
 * Source: RFC 9449 §11.1
 */
export function keepProofsOnce(provider: Provider, app: App): void {
  const { ReplayDetection } = provider as unknown as { ReplayDetection: { unique: Unique } }
  ReplayDetection.unique = (clientId, jti) => isFirstUse(app, clientId, jti)
}

type Unique = (clientId: string, jti: string, until: number) => Promise<boolean>

const isFirstUse = ({ clock, db }: App, clientId: string, jti: string): Promise<boolean> =>
  spendOnce(db, { kind: 'Proof', parts: [clientId, jti], until: clock.wall() / 1_000 + 2 * PROOF_SECONDS })

/**
 * Returns the key of the proof in a token request, for a grant type of ours; null if there is no proof.
 * @throws invalid_dpop_proof; invalid_grant if the application must send a proof and did not
 */
export async function keyOfRequest(app: App, ctx: TokenRequest): Promise<string | null> {
  const { client } = ctx.oidc
  const header = ctx.req.headers.dpop
  if (header === undefined) {
    if (client.dpopBoundAccessTokens === true) throw new errors.InvalidGrant('DPoP proof JWT not provided')
    return null
  }
  try {
    const uri = ctx.oidc.urlFor('token')
    const { jkt, jti } = await readProof({ proof: header, method: ctx.method, uri, now: app.clock.wall() })
    if (await isFirstUse(app, client.clientId, jti)) return jkt
    throw new ProofRefused('was already used')
  } catch (error) {
    throw error instanceof ProofRefused ? new errors.InvalidDpopProof(`The DPoP proof ${error.message}.`) : error
  }
}

/**
 * Returns the key that the refresh tokens of an application without a secret are bound to: that of this request's
 * proof. The library verifies the proof before it stores anything.
 * Source: RFC 9449 §5
 */
export async function keyOfPublicClient({ req, oidc }: KoaContextWithOIDC): Promise<string | undefined> {
  const proof = req.headers.dpop
  if (oidc.client?.clientAuthMethod !== 'none' || typeof proof !== 'string' || proof === '') return undefined
  return calculateJwkThumbprint(decodeProtectedHeader(proof).jwk!)
}

type TokenRequest = {
  method: string
  req: { headers: IncomingHttpHeaders }
  oidc: { client: { clientId: string; dpopBoundAccessTokens?: unknown }; urlFor: (route: string) => string }
}
