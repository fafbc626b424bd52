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
 * What is forbidden although its token is good: revoked grants, suspended applications, frozen users. The server brings
 * lists that the authorization server has signed, so it can forbid nothing by itself, and permit nothing: a list that is
 * altered or older than the newest is not taken, and when none newer comes, no token is accepted any more.
 */
export type Revocations = {
  /** Verb `revocations`: takes one part of a list. Errors: bad_request, signer_unavailable. */
  take: (request: unknown) => Promise<{ issuedAt: number }>
  /**
   * The caller again, immediately where the newest list is fresh; otherwise after the lists that are being read.
   * @throws invalid_token, application_suspended, account_frozen, revocations_stale
   */
  check: (caller: TokenCaller) => TokenCaller | Promise<TokenCaller>
  /** For what needs no token: whether any list was taken since the start. @throws revocations_stale */
  assertListed: () => void
  /** After the lists that are being read. */
  state: () => Promise<'fresh' | 'stale' | 'unused'>
}

/** Clocks of the database and of this machine may differ by this much; further ahead a list would live too long. */
const MAX_AHEAD_SECONDS = 10
/** Lists of which some parts are here: each server's newest, and one that it abandoned. */
const MAX_INCOMPLETE = 8

type Incomplete = { issuedAt: number; parts: (string[] | undefined)[] }

/** @param maxAgeSeconds  how old the newest list may be; 0: lists are not used */
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
      // What is asked behind a list waits for it: on a new connection it is the first thing that is said.
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
    // Of several servers each brings its own, and of two readings of one database the later one knows more.
    if (list.iat < newest.issuedAt) return
    const entries = complete(list)
    if (entries === null || list.iat < newest.issuedAt) return
    // Kept before the list counts: who is told that it was taken may rely on its freezes after a crash, too.
    await freezes?.takeList(entries, list.iat)
    if (list.iat < newest.issuedAt) return
    newest = { issuedAt: list.iat, entries: new Set(entries) }
    for (const [id, { issuedAt }] of incomplete) if (issuedAt <= list.iat) incomplete.delete(id)
    log.debug('revocations_taken', { entries: entries.length, ageSeconds: Math.round(age) })
  }

  /** All entries of a list, once its last part is here. */
  function complete({ jti, iat, part, parts, entries }: RevocationList): string[] | null {
    if (parts === 1) return entries
    const known = incomplete.get(jti) ?? { issuedAt: iat, parts: Array.from({ length: parts }) as Incomplete['parts'] }
    if (part >= known.parts.length || parts !== known.parts.length) throw bad('its parts contradict each other')
    known.parts[part] = entries
    if (known.parts.every((one) => one !== undefined)) return known.parts.flat() as string[]
    incomplete.set(jti, known)
    return null
  }

  // A clock that was set back would make the list live longer.
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

/** Signed by the authorization server, so its form is a matter of versions, not of attacks. */
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
