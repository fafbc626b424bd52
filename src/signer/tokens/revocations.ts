import { errors, type JWTPayload } from 'jose'
import { BoundedMap } from '../../bounded-map.ts'
import type { Logger } from '../../log.ts'
import type { TokenCaller } from './caller.ts'
import type { Freezes } from './freezes.ts'
import type { KeyFile } from './key-file.ts'
import { ACCOUNT_FROZEN } from '../../errors.ts'
import { Refusal } from '../refusal.ts'
import { readRevocationsRequest } from '../request.ts'
import { MAX_REVOCATION_PARTS, REVOCATIONS_TYPE, type RevocationList } from '../../signer-wire/wire.ts'
import { systemClock } from '../../clock.ts'

/**
 * Revoked grants, suspended applications and frozen users, whose tokens are rejected although they are valid. The server forwards
 * lists that the authorization server has signed, so it can neither revoke nor permit anything by itself. A list that is altered or
 * older than the newest one is not accepted. If no newer list arrives, all tokens are rejected.
 */
export type Revocations = {
  /** Handles the verb `revocations`: accepts one part of a list. Errors: bad_request, signer_unavailable. */
  take: (request: unknown) => Promise<{ issuedAt: number }>
  /**
   * Returns the caller if its token is not revoked: at once if the newest list is fresh, otherwise after the lists that are being
   * read.
   * @throws invalid_token, application_suspended, account_frozen, revocations_stale
   */
  check: (caller: TokenCaller) => TokenCaller | Promise<TokenCaller>
  /** for requests without a token: requires that a list was accepted since the start. @throws revocations_stale */
  assertListed: () => void
  /** resolves after the lists that are being read */
  state: () => Promise<'fresh' | 'stale' | 'unused'>
}

/** Maximum difference between the clocks of the database and this machine. A list dated further ahead would be valid for too long. */
const MAX_AHEAD_SECONDS = 10
/** Lists of which only some parts have arrived: the newest of each server, and one that a server abandoned. */
const MAX_INCOMPLETE = 8

type Incomplete = { issuedAt: number; parts: (string[] | undefined)[] }

/** Opens the revocations. @param maxAgeSeconds  maximum age of the newest list; 0: lists are not used */
export function openRevocations({
  keys,
  issuer,
  maxAgeSeconds,
  log,
  freezes,
  now = systemClock.wall,
}: {
  keys: KeyFile
  issuer: string
  maxAgeSeconds: number
  log: Logger
  freezes?: Pick<Freezes, 'takeList'>
  now?: () => number
}): Revocations {
  let newest = { issuedAt: -Infinity, entries: new Set<string>() }
  const incomplete = new BoundedMap<string, Incomplete>(MAX_INCOMPLETE)
  const reading = new Set<Promise<unknown>>()

  return {
    async take(request) {
      const taking = read(readRevocationsRequest(request).list)
      const settled = taking.catch(() => {})
      // Requests that follow a list on the same connection wait for it: a server sends a list first on a new connection.
      reading.add(settled)
      await settled
      reading.delete(settled)
      await taking
      return { issuedAt: newest.issuedAt }
    },
    check(caller) {
      if (maxAgeSeconds === 0) return caller
      if (isFresh()) return refuseRevoked(caller)
      if (reading.size === 0) throw stale()
      return Promise.all(reading).then(() => {
        if (!isFresh()) throw stale()
        return refuseRevoked(caller)
      })
    },
    assertListed() {
      if (maxAgeSeconds > 0 && newest.issuedAt === -Infinity) throw stale()
    },
    async state() {
      if (maxAgeSeconds === 0) return 'unused'
      if (!isFresh()) await Promise.all(reading)
      return isFresh() ? 'fresh' : 'stale'
    },
  }

  async function read(jws: string): Promise<void> {
    const list = readList(
      await keys.verify(jws, { typ: REVOCATIONS_TYPE, issuer, required: ['iat', 'jti'] }).catch(refuse),
    )
    const age = now() / 1_000 - list.iat
    if (age < -MAX_AHEAD_SECONDS || (maxAgeSeconds > 0 && age > maxAgeSeconds)) {
      log.warn('revocations_refused', { ageSeconds: Math.round(age) })
      throw bad(
        age < 0
          ? 'its time is in the future: the clocks of the signer and the database differ'
          : `it is ${Math.round(age)} seconds old`,
      )
    }
    // Several servers send lists. Of two readings of one database, the later one is more complete.
    if (list.iat < newest.issuedAt) return
    const entries = complete(list)
    if (entries === null || list.iat < newest.issuedAt) return
    // Store the freezes before the list counts: a server that got the answer may rely on them even after a crash.
    await freezes?.takeList(entries, list.iat)
    if (list.iat < newest.issuedAt) return
    newest = { issuedAt: list.iat, entries: new Set(entries) }
    for (const [id, { issuedAt }] of incomplete) if (issuedAt <= list.iat) incomplete.delete(id)
    log.debug('revocations_accepted', { entries: entries.length, ageSeconds: Math.round(age) })
  }

  /** Returns all entries of a list once its last part has arrived, else null. */
  function complete({ jti, iat, part, parts, entries }: RevocationList): string[] | null {
    if (parts === 1) return entries
    const known = incomplete.get(jti) ?? { issuedAt: iat, parts: Array.from({ length: parts }) as Incomplete['parts'] }
    if (part >= known.parts.length || parts !== known.parts.length) throw bad('its parts contradict each other')
    known.parts[part] = entries
    if (known.parts.every((one) => one !== undefined)) return known.parts.flat() as string[]
    incomplete.set(jti, known)
    return null
  }

  // If the clock was set back, the list would be valid for too long.
  function isFresh(): boolean {
    const age = now() / 1_000 - newest.issuedAt
    return age <= maxAgeSeconds && age >= -MAX_AHEAD_SECONDS
  }

  function refuseRevoked(caller: TokenCaller): TokenCaller {
    const { grant, application, user } = caller.marks
    if (newest.entries.has(grant)) throw revoked()
    if (newest.entries.has(application)) {
      throw new Refusal(
        'application_suspended',
        'The operator has suspended this application, or removed `contracts:write` from it. Nothing was signed. Ask the operator.',
      )
    }
    if (newest.entries.has(user)) throw new Refusal('account_frozen', ACCOUNT_FROZEN)
    return caller
  }
}

const revoked = (): Refusal =>
  new Refusal('invalid_token', 'The access token was revoked. Nothing was signed. Ask the user to sign in again.')

const stale = (): Refusal =>
  new Refusal(
    'revocations_stale',
    'The signer’s list of revoked tokens is too old, so the signer accepts no access token. Nothing was signed. Retry.',
  )

const bad = (detail: string): Refusal =>
  new Refusal('bad_request', `The list of revoked tokens is rejected: ${detail}.`)

function refuse(error: unknown): never {
  if (error instanceof errors.JOSEError || error instanceof TypeError) throw bad('its signature or format is wrong')
  throw error
}

/** The authorization server has signed it, so another form means another version, not an attack. */
function readList({ iat, jti, part, parts, entries }: JWTPayload): RevocationList {
  const isWhole = (value: unknown, least: number, most: number): value is number =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most
  if (
    !isWhole(parts, 1, MAX_REVOCATION_PARTS) ||
    !isWhole(part, 0, parts - 1) ||
    !Array.isArray(entries) ||
    !entries.every((entry) => typeof entry === 'string')
  )
    throw bad('its format is unknown')
  return { iat: iat!, jti: jti!, part, parts, entries }
}
