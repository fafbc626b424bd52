import { hash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createLocalJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyGetKey } from 'jose'
import type { Log } from '../telemetry.ts'
import { Refusal } from './refusal.ts'

/** What a good token says: who, through which application, what is allowed, on which chain, until when (seconds). */
export type Caller = {
  userId: string
  clientId: string
  scopes: string[]
  chainId: number | null
  /** the token's `jti`, else its SHA-256: for the ledger, never the token itself */
  tokenId: string
  expiresAt: number
}

export type Tokens = {
  /**
   * Verifies an access token (RFC 9068), by ES256 only.
   * @throws invalid_token        for every fault of the token, without saying which
   * @throws signer_unavailable   when no key was readable: that is no fault of the token
   */
  check: (token: string) => Caller | Promise<Caller>
}

const CLOCK_TOLERANCE_SECONDS = 5
/** Tokens remembered as verified, by hash: an ES256 verification costs about 150 µs, a look-up 3 µs. */
const MOST_REMEMBERED = 10_000
/** How often the key file is looked at, and how often an unknown key may make us look again. */
const LOOK_EVERY_MS = 1_000
const LOOK_FOR_UNKNOWN_EVERY_MS = 100

export function openTokens({
  file,
  issuer,
  audience,
  log,
  now = Date.now,
}: {
  file: string
  issuer: string
  audience: string
  log: Log
  now?: () => number
}): Tokens {
  const keys = openKeyFile(file, log, now)
  let verifiedBy = keys.current()
  let remembered = new Map<string, Caller | Promise<Caller>>()

  return {
    check(token) {
      const set = keys.current()
      if (set !== verifiedBy) {
        // A key that was taken away takes its tokens with it.
        verifiedBy = set
        remembered = new Map()
      }
      const id = hash('sha256', token, 'base64url')
      const known = remembered.get(id)
      if (known === undefined) return remember(id, verify(token, id))
      if (known instanceof Promise || isAlive(known)) return known
      remembered.delete(id)
      throw invalid()
    },
  }

  function remember(id: string, verifying: Promise<Caller>): Promise<Caller> {
    const into = remembered
    if (into.size >= MOST_REMEMBERED) into.delete(into.keys().next().value!)
    const settled = verifying.then(
      (caller) => {
        into.set(id, caller)
        return caller
      },
      (error: unknown) => {
        into.delete(id)
        throw error
      },
    )
    into.set(id, settled)
    return settled
  }

  async function verify(token: string, id: string): Promise<Caller> {
    try {
      return await verifyWith(keys.current(), token, id)
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey && keys.lookAgain()) {
        return await verifyWith(keys.current(), token, id).catch(refuse)
      }
      return refuse(error)
    }
  }

  async function verifyWith(set: JWTVerifyGetKey | null, token: string, id: string): Promise<Caller> {
    if (set === null) throw new Refusal('signer_unavailable', 'The signer has no keys to verify tokens with.')
    const { payload } = await jwtVerify(token, set, {
      algorithms: ['ES256'],
      typ: 'at+jwt',
      issuer,
      audience,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: ['exp', 'sub', 'client_id'],
      currentDate: new Date(now()),
    })
    return readCaller(payload, id)
  }

  function isAlive({ expiresAt }: Caller): boolean {
    return expiresAt + CLOCK_TOLERANCE_SECONDS > now() / 1_000
  }
}

const invalid = (): Refusal => new Refusal('invalid_token', 'The signer does not accept the access token.')

function refuse(error: unknown): never {
  // jose's message may repeat claims; which check failed is the server's to know, it has checked the token before.
  throw error instanceof errors.JOSEError || error instanceof TypeError ? invalid() : error
}

function readCaller(payload: JWTPayload, id: string): Caller {
  const { sub, client_id: clientId, scope, chain_id: chainId, jti, exp } = payload
  if (typeof sub !== 'string' || sub === '' || !isPlain(clientId) || exp === undefined) throw invalid()
  return {
    userId: sub,
    clientId,
    scopes: typeof scope === 'string' ? scope.split(' ') : [],
    chainId: typeof chainId === 'number' ? chainId : null,
    tokenId: isPlain(jti) ? jti : id,
    expiresAt: exp,
  }
}

/** Printable ASCII (RFC 6749 appendix A.1) of a length that the ledger may keep. */
const isPlain = (text: unknown): text is string => typeof text === 'string' && /^[\x20-\x7e]{1,255}$/.test(text)

/**
 * The public keys in a file that the authorization server writes, at any time. What was read last stays in force
 * while the file is missing or half written.
 */
function openKeyFile(file: string, log: Log, now: () => number) {
  let set: JWTVerifyGetKey | null = null
  let seen = { stamp: '', text: '' }
  let lookedAt = -Infinity
  return {
    current(): JWTVerifyGetKey | null {
      if (now() - lookedAt >= LOOK_EVERY_MS) look({ evenIfUnchanged: false })
      return set
    },
    /** For a token whose key is unknown; true when the file was looked at. */
    lookAgain(): boolean {
      if (now() - lookedAt < LOOK_FOR_UNKNOWN_EVERY_MS) return false
      look({ evenIfUnchanged: true })
      return true
    },
  }

  // The stamp cannot tell two files written within one tick of the file system's clock.
  function look({ evenIfUnchanged }: { evenIfUnchanged: boolean }): void {
    lookedAt = now()
    try {
      const { mtimeNs, size, ino } = statSync(file, { bigint: true })
      const stamp = `${mtimeNs} ${size} ${ino}`
      if (stamp === seen.stamp && !evenIfUnchanged) return
      const text = readFileSync(file, 'utf8')
      if (text !== seen.text) set = readKeySet(text)
      seen = { stamp, text }
    } catch (error) {
      log.warn('token_keys_unreadable', { inForce: set !== null }, error)
    }
  }
}

/**
 * Only public EC keys for signatures are taken over, member by member: a private part that strayed into the file is
 * left there. Null for a set without any, which takes every token's key away.
 */
function readKeySet(text: string): JWTVerifyGetKey | null {
  const usable = readJson(text)
    .keys.filter(({ kty, crv, use = 'sig' }) => kty === 'EC' && crv === 'P-256' && use === 'sig')
    .map(({ kty, crv, x, y, kid }) => ({
      kty: kty!,
      crv: crv!,
      x: x!,
      y: y!,
      ...(kid === undefined ? {} : { kid }),
    }))
  return usable.length === 0 ? null : createLocalJWKSet({ keys: usable })
}

function readJson(text: string): { keys: Record<string, string>[] } {
  try {
    return JSON.parse(text)
  } catch {
    // JSON.parse repeats part of its input in its message, and a private key may have strayed into the file.
    throw new Error('the file of token keys is not JSON')
  }
}
