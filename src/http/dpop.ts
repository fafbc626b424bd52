import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { calculateJwkThumbprint, decodeProtectedHeader, EmbeddedJWK, jwtVerify, type CryptoKey, type JWK } from 'jose'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { openLimit, type Limit } from './limits.ts'
import { openSeenProofs, type SeenProofs } from './seen-proofs.ts'
import { slot } from '../state.ts'

/** Signatures of proofs, here and at the token endpoint; discovery announces them. */
export const PROOF_ALGORITHMS = ['ES256', 'Ed25519', 'EdDSA'] as const
/** How old a proof may be, seconds: as at the token endpoint, where the library says so. */
export const PROOF_SECONDS = 300
/** How far the clock of a client may be ahead, seconds. */
const AHEAD_SECONDS = 60
/** The whole header block may have 8 kB, and the access token is in it too. */
const MAX_PROOF_CHARACTERS = 4_096
/** Members of a JWK that are private or a shared secret (RFC 7518 §6). */
const SECRET_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

/** A proof whose signature is right: which key made it, under which number, when. */
export type DpopProof = {
  /** SHA-256 thumbprint of the key (RFC 7638), base64url */
  jkt: string
  jti: string
  /** seconds since 1970 */
  iat: number
  key: CryptoKey
}

type Expected = {
  /** the `DPoP` header as it came */
  proof: string | string[] | undefined
  method: string
  /** address of the request as clients see it */
  uri: string
  /** the access token that comes with it; none at the token endpoint */
  token?: string
  /** thumbprint and, where it was seen before, the key itself that must have signed */
  by?: { jkt: string; key: CryptoKey | undefined }
  /** milliseconds since 1970 */
  now: number
}

/** A proof that is not one, and why; the end of a sentence that begins with the proof. */
export class ProofRefused extends Error {}
class AnotherKey extends ProofRefused {}

/**
 * Reads a proof of possession and checks all of it but whether it was used before. What costs nothing is looked at first.
 * @throws ProofRefused
 * Source: RFC 9449 §4.3
 */
export async function readProof({ proof, method, uri, token, by, now }: Expected): Promise<DpopProof> {
  // The parser joins several headers with a comma, which is in no proof.
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
 * An address without query and fragment, written one way: two that lead to the same place are the same text.
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

/** What is remembered of an access token that is bound to a key, a user's or an application's own. */
type BoundToken = { token: string; jkt?: string; clientId: string; accountId?: string }

type Proofs = {
  seen: SeenProofs
  /** read from the first proof of each; they go when the token that is remembered goes */
  keys: WeakMap<BoundToken, CryptoKey>
  limit: Limit
}
const memories = slot('used proofs', (app: App) => openProofs(app, {}))

function openProofs(app: App, bound: { most?: number }): Proofs {
  const { APPLICATION_PER_SECOND: perSecond } = app.config
  const limit = openLimit({ name: 'proofs', perSecond, burst: perSecond, now: () => app.clock.wall() })
  return { seen: openSeenProofs(bound), keys: new WeakMap(), limit }
}

/** Begins anew to remember the used proofs of this process. @param most  how many at once */
export function rememberProofs(app: App, { most }: { most: number }): void {
  Object.assign(memories.of(app), openProofs(app, { most }))
}

/**
 * Checks that a request was made by the key that its access token is bound to, and for the first time. Used proofs are
 * remembered by this process: another replica, or the next start, would take one once more until it is too old.
 * @throws invalid_token       for another key than the token's
 * @throws invalid_dpop_proof  for everything else that is wrong with the proof
 * @throws rate_limited        for more of one person than an application may ask in all: the memory is everyone's
 * @throws overloaded          when more proofs of one minute came than are remembered
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
  // Behind the signature: who has the token alone takes nothing from its owner.
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

/** What a 401 of this scheme says it wants. @param error  `invalid_token` and the like; none where no token was sent */
export const challengeOf = (error: string): string => `DPoP error="${error}", algs="${PROOF_ALGORITHMS.join(' ')}"`
