import { readFileSync, statSync } from 'node:fs'
import { createLocalJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyGetKey } from 'jose'
import type { Logger } from '../telemetry.ts'
import { Refusal } from './refusal.ts'

/** How often the key file is looked at, and how often an unknown key may make us look again. */
const LOOK_EVERY_MS = 1_000
const LOOK_FOR_UNKNOWN_EVERY_MS = 100

export type KeyFile = {
  /** the keys in force; another object when they change */
  current: () => JWTVerifyGetKey | null
  /**
   * The claims of a JWS that one of the keys signed with ES256, with this `typ`.
   * @throws what jose throws, and signer_unavailable when no key was readable
   */
  verify: (jws: string, expected: { typ: string; issuer: string; audience?: string; required: string[] }) => Promise<JWTPayload> // prettier-ignore
}

export const CLOCK_TOLERANCE_SECONDS = 5

/**
 * The public keys in a file that the authorization server writes, at any time. What was read last stays in force
 * while the file is missing or half written.
 */
export function openKeyFile(file: string, log: Logger, now: () => number): KeyFile {
  let set: JWTVerifyGetKey | null = null
  let seen = { stamp: '', text: '' }
  let lookedAt = -Infinity

  return {
    current,
    async verify(jws, expected) {
      try {
        return await verifyWith(current(), jws, expected)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey) || !lookAgain()) throw error
        return verifyWith(set, jws, expected)
      }
    },
  }

  async function verifyWith(
    keys: JWTVerifyGetKey | null,
    jws: string,
    { typ, issuer, audience, required }: Parameters<KeyFile['verify']>[1],
  ): Promise<JWTPayload> {
    if (keys === null) throw new Refusal('signer_unavailable', 'The signer has no keys to verify tokens with.')
    const { payload } = await jwtVerify(jws, keys, {
      algorithms: ['ES256'],
      typ,
      issuer,
      ...(audience === undefined ? {} : { audience }),
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: required,
      currentDate: new Date(now()),
    })
    return payload
  }

  function current(): JWTVerifyGetKey | null {
    if (now() - lookedAt >= LOOK_EVERY_MS) reload({ evenIfUnchanged: false })
    return set
  }

  /** For a key that is unknown; true when the file was looked at. */
  function lookAgain(): boolean {
    if (now() - lookedAt < LOOK_FOR_UNKNOWN_EVERY_MS) return false
    reload({ evenIfUnchanged: true })
    return true
  }

  // The stamp cannot tell two files written within one tick of the file system's clock.
  function reload({ evenIfUnchanged }: { evenIfUnchanged: boolean }): void {
    lookedAt = now()
    try {
      const { mtimeNs, size, ino } = statSync(file, { bigint: true })
      const stamp = `${mtimeNs} ${size} ${ino}`
      if (stamp === seen.stamp && !evenIfUnchanged) return
      const text = readFileSync(file, 'utf8')
      if (text !== seen.text) {
        set = readKeySet(text)
        // AUTH_KEYS_FILE itself: anyone who takes the signer could then sign in as anyone.
        if (/"d"\s*:/.test(text)) log.warn('token_keys_private', { hint: 'SIGNER_JWKS_FILE must name the public half' })
      }
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
