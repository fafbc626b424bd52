import type { IncomingHttpHeaders } from 'node:http'
import { calculateJwkThumbprint, decodeProtectedHeader } from 'jose'
import { errors, type KoaContextWithOIDC, type Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { PROOF_SECONDS, ProofRefused, readProof } from '../http/dpop.ts'
import { spendOnce } from './spend-once.ts'

/**
 * Makes the library take each proof once, also of two that come at the same time, which it asks and notes in two steps. It
 * accepts the time of a proof up to five minutes before and after its own: that long twice a proof may come again.
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
 * The key of the proof that came with a request to the token endpoint, for a grant of ours; null where none came.
 * @throws invalid_dpop_proof, invalid_grant where an application that is bound to send one did not
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
 * The key that the refresh tokens of an application without a secret are bound to: of the proof that came with this
 * request, which the library has verified before it stores anything.
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
