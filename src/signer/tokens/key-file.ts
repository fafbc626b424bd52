import { readFileSync, statSync } from 'node:fs'
import { createLocalJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyGetKey } from 'jose'
import type { Logger } from '../../log.ts'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { readTokenKeys } from './anchor.ts'
import { Refusal } from '../refusal.ts'
import { systemClock } from '../../clock.ts'

/** How often the key file is checked, and how often an unknown key may cause an additional check. */
const LOOK_EVERY_MS = 1_000
const LOOK_FOR_UNKNOWN_EVERY_MS = 100

export type KeyFile = {
  /** the keys in force; a different object after each change */
  current: () => JWTVerifyGetKey | null
  /** fingerprints of the keys in force */
  fingerprints: () => string[]
  /**
   * Returns the claims of a JWS that one of the keys signed with ES256 and that has this `typ`.
   * @throws the errors of jose, and signer_unavailable if no key was readable
   */
  verify: (jws: string, expected: { typ: string; issuer: string; audience?: string; required: string[] }) => Promise<JWTPayload> // prettier-ignore
}

export const CLOCK_TOLERANCE_SECONDS = 5

/**
 * Opens the public keys in a file that may change at any time. It is the signer's file of trusted keys (anchor.ts), or in
 * development the authorization server's file. While the file is missing or half written, the last keys remain in force.
 * @param now    milliseconds since 1970, for the times in tokens
 * @param ticks  milliseconds of a monotonic clock, to schedule checks. With a wall clock that was set back, a key that is no longer
 * trusted would remain in force until the clock caught up.
 */
export function openKeyFile(
  file: string,
  log: Logger,
  now: () => number,
  ticks: () => number = systemClock.ticks,
): KeyFile {
  let set: JWTVerifyGetKey | null = null
  let seen = { stamp: '', text: '' }
  let known: string[] = []
  let lookedAt = -Infinity

  return {
    current,
    fingerprints() {
      reload({ evenIfUnchanged: false })
      return known
    },
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
    if (keys === null)
      throw new Refusal(
        'signer_unavailable',
        'The signer has no keys that verify tokens. Nothing was signed. An operator must check SIGNER_JWKS_FILE.',
      )
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
    if (ticks() - lookedAt >= LOOK_EVERY_MS) reload({ evenIfUnchanged: false })
    return set
  }

  /** Checks the file for an unknown key; true if it was read. */
  function lookAgain(): boolean {
    if (ticks() - lookedAt < LOOK_FOR_UNKNOWN_EVERY_MS) return false
    reload({ evenIfUnchanged: true })
    return true
  }

  // The stamp cannot distinguish two versions that were written within one tick of the file system's clock.
  function reload({ evenIfUnchanged }: { evenIfUnchanged: boolean }): void {
    lookedAt = ticks()
    try {
      const { mtimeNs, size, ino } = statSync(file, { bigint: true })
      const stamp = `${mtimeNs} ${size} ${ino}`
      if (stamp === seen.stamp && !evenIfUnchanged) return
      const text = readFileSync(file, 'utf8')
      if (text !== seen.text) {
        const keys = readTokenKeys(text)
        // An empty set rejects every token.
        set = keys.length === 0 ? null : createLocalJWKSet({ keys })
        const now = keys.map(jwkThumbprint)
        const [added, removed] = [now.filter((one) => !known.includes(one)), known.filter((one) => !now.includes(one))]
        if (seen.text !== '' && added.length + removed.length > 0)
          log.warn('token_keys_changed', { added: added.join(' '), removed: removed.join(' ') })
        known = now
        // The file may be AUTH_KEYS_FILE itself. Then an attacker who controls the signer could sign in as anyone.
        if (/"d"\s*:/.test(text)) log.warn('token_keys_private', { hint: 'SIGNER_JWKS_FILE must name the public half' })
      }
      seen = { stamp, text }
    } catch (error) {
      log.warn('token_keys_unreadable', { inForce: set !== null }, error)
    }
  }
}
