import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { calculateJwkThumbprint, decodeProtectedHeader, EmbeddedJWK, jwtVerify, type CryptoKey, type JWK } from 'jose'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openLimit, type Limit } from './limits.ts'
import { openSeenProofs, type SeenProofs } from './seen-proofs.ts'
import { slot } from '../state.ts'

/** Signature algorithms of proofs, here and at the token endpoint. Discovery announces them. */
export const PROOF_ALGORITHMS = ['ES256', 'Ed25519', 'EdDSA'] as const
/** Maximum age of a proof, seconds; the token endpoint's library uses the same. */
export const PROOF_SECONDS = 300
/** How far a client's clock may be ahead, seconds. */
const AHEAD_SECONDS = 60
/** The header block may have 8 kB, and the access token needs part of it. */
const MAX_PROOF_CHARACTERS = 4_096
/** Members of a JWK that are private or a shared secret (RFC 7518 §6). */
const SECRET_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

/** A proof with a valid signature. */
export type DpopProof = {
  /** SHA-256 thumbprint of the key (RFC 7638), base64url */
  jkt: string
  jti: string
  /** seconds since 1970 */
  iat: number
  key: CryptoKey
}

type Expected = {
  /** the `DPoP` header, unparsed */
  proof: string | string[] | undefined
  method: string
  /** public URL of the request */
  uri: string
  /** the access token of the request; absent at the token endpoint */
  token?: string
  /** thumbprint of the key that must have signed and, if it was seen before, the key itself */
  by?: { jkt: string; key: CryptoKey | undefined }
  /** milliseconds since 1970 */
  now: number
}

/** An invalid proof. The message completes a sentence that begins with “The DPoP proof”. */
export class ProofRefused extends Error {}
class AnotherKey extends ProofRefused {}

/**
 * Reads a proof of possession and checks everything except whether it was used before. Cheap checks come first.
 * @throws ProofRefused
 * Source: RFC 9449 §4.3
 */
export async function readProof({ proof, method, uri, token, by, now }: Expected): Promise<DpopProof> {
  // The parser joins several headers with a comma, which no proof contains.
  if (typeof proof !== 'string' || proof.length > MAX_PROOF_CHARACTERS || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(proof))
    throw new ProofRefused('is not exactly one signed JWT in the header `DPoP`')
  const header = headerOf(proof)
  if (header.typ !== 'dpop+jwt') throw new ProofRefused('does not have `dpop+jwt` in `typ`')
  if (!(PROOF_ALGORITHMS as readonly unknown[]).includes(header.alg))
    throw new ProofRefused(`is not signed with ${PROOF_ALGORITHMS.join(', ')}`)
  const jwk: unknown = header.jwk
  if (typeof jwk !== 'object' || jwk === null || SECRET_MEMBERS.some((member) => member in jwk))
    throw new ProofRefused('does not have exactly its public key in `jwk`')
  const jkt = await calculateJwkThumbprint(jwk as JWK).catch(() => {
    throw new ProofRefused('does not have a key in `jwk`')
  })
  if (by !== undefined && by.jkt !== jkt) throw new AnotherKey('is not signed by the key of the access token')
  const { payload, key } = await verified(proof, by?.key ?? EmbeddedJWK, now)
  const { jti, iat, htm, htu, ath } = payload
  if (typeof jti !== 'string' || jti === '') throw new ProofRefused('has no `jti`')
  if (typeof iat !== 'number') throw new ProofRefused('has no `iat`')
  const age = now / 1_000 - iat
  if (!(age <= PROOF_SECONDS && age >= -AHEAD_SECONDS))
    throw new ProofRefused(`is not current: \`iat\` may be ${PROOF_SECONDS} s old and ${AHEAD_SECONDS} s ahead`)
  if (htm !== method) throw new ProofRefused('is for another method: see `htm`')
  const place = placeOf(uri)
  if (typeof htu !== 'string' || place === null || placeOf(htu) !== place)
    throw new ProofRefused('is for another URI: see `htu`')
  if (token !== undefined && ath !== hash('sha256', token, 'base64url'))
    throw new ProofRefused('is for another access token: see `ath`')
  return { jkt, jti, iat, key }
}

function headerOf(proof: string): { typ?: unknown; alg?: unknown; jwk?: unknown } {
  try {
    return decodeProtectedHeader(proof)
  } catch {
    throw new ProofRefused('has no readable header')
  }
}

async function verified(proof: string, by: CryptoKey | typeof EmbeddedJWK, now: number) {
  const options = { algorithms: [...PROOF_ALGORITHMS], currentDate: new Date(now) }
  try {
    if (typeof by !== 'function') return { payload: (await jwtVerify(proof, by, options)).payload, key: by }
    const { payload, key } = await jwtVerify(proof, by, options)
    return { payload, key }
  } catch {
    throw new ProofRefused('is not signed by the key in its `jwk`')
  }
}

/**
 * Normalizes a URL without query and fragment, so that equivalent URLs are equal texts. Returns null if it is not a
 * URL.
 * Source: RFC 9449 §4.3, RFC 3986 §6.2.2 and §6.2.3
 */
function placeOf(uri: string): string | null {
  if (!URL.canParse(uri)) return null
  const url = new URL(uri)
  url.search = ''
  url.hash = ''
  return url.href.replaceAll(/%[0-9a-f]{2}/gi, (escaped) => {
    const character = String.fromCharCode(Number.parseInt(escaped.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : escaped.toUpperCase()
  })
}

/** A cached access token that is bound to a key, of a user or an application. */
type BoundToken = { token: string; jkt?: string; clientId: string; accountId?: string }

type Proofs = {
  seen: SeenProofs
  /** key of each token, from its first proof; garbage-collected with the cached token */
  keys: WeakMap<BoundToken, CryptoKey>
  limit: Limit
}
const memories = slot('used proofs', (app: App) => openProofs(app, {}))

function openProofs(app: App, bound: { most?: number }): Proofs {
  const { APPLICATION_PER_SECOND: perSecond } = app.config
  const limit = openLimit({ name: 'proofs', perSecond, burst: perSecond, now: () => app.clock.wall() })
  return { seen: openSeenProofs(bound), keys: new WeakMap(), limit }
}

/** Replaces this process's memory of used proofs. @param most  maximum number of proofs */
export function rememberProofs(app: App, { most }: { most: number }): void {
  Object.assign(memories.of(app), openProofs(app, { most }))
}

/**
 * Checks that the key of the access token signed this request, and that the proof is new. Used proofs are remembered in
 * this process only: another replica, or this one after a restart, accepts a proof again until it expires.
 * @throws invalid_token       if another key signed
 * @throws invalid_dpop_proof  for any other fault of the proof
 * @throws rate_limited        if a user sends more proofs than an application may send requests: the memory is shared
 * @throws overloaded          if more proofs of one minute arrive than fit the memory
 * Source: RFC 9449 §7
 */
export async function assertProven(app: App, request: FastifyRequest, bound: BoundToken): Promise<void> {
  const state = memories.of(app)
  const now = app.clock.wall()
  const proof = await readProof({
    proof: request.headers.dpop,
    method: request.method,
    uri: (request.url.startsWith('/oauth/') ? app.authOrigin : app.origin) + request.url,
    token: bound.token,
    by: { jkt: bound.jkt!, key: state.keys.get(bound) },
    now,
  }).catch((error: unknown) => {
    if (error instanceof AnotherKey) throw refusal(error.message, 'invalid_token')
    throw error instanceof ProofRefused ? refusal(error.message) : error
  })
  state.keys.set(bound, proof.key)
  // After the signature check: someone with a stolen token but without its key cannot use up the owner's limit.
  if (app.config.RATE_LIMITS === 'on') {
    const taken = state.limit.take(bound.accountId ?? bound.clientId)
    if (!taken.allowed)
      throw new AppError(
        'rate_limited',
        `The limit is ${state.limit.perSecond} requests per second. Nothing was done. Retry after \`Retry-After\` seconds.`,
        taken,
      )
  }
  const first = state.seen.use(hash('sha256', `${proof.jkt} ${proof.jti}`, 'base64url'), { iat: proof.iat, now })
  if (first === 'again') throw refusal('was already used: create a new proof for each request')
  if (first === 'forgotten') throw refusal('is too old to check for reuse: create a new proof')
  if (first === 'full')
    throw new AppError(
      'overloaded',
      'The service has too many DPoP proofs to check. Nothing was done. Retry with a new proof.',
      {
        retryAfter: 10,
      },
    )
}

const refusal = (what: string, code: 'invalid_token' | 'invalid_dpop_proof' = 'invalid_dpop_proof'): AppError =>
  new AppError(code, `The DPoP proof ${what}. Nothing was done. Retry with a new proof.`, { challenge: 'DPoP' })

/**
 * Returns the `WWW-Authenticate` value of a 401 for the DPoP scheme.
 * @param error  OAuth error code, such as `invalid_token`
 */
export const challengeOf = (error: string): string => `DPoP error="${error}", algs="${PROOF_ALGORITHMS.join(' ')}"`
