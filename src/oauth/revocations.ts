import { randomUUID } from 'node:crypto'
import { importJWK, SignJWT } from 'jose'
import { sql } from 'kysely'
import { issuerOf, type App } from '../app.ts'
import { AppError } from '../errors.ts'
import {
  frozenEntry,
  MAX_REVOCATION_PARTS,
  revoked,
  REVOCATIONS_TYPE,
  type RevocationList,
} from '../signer-wire/wire.ts'
import type { PrivateKeys } from './keys.ts'
import { slot } from '../state.ts'
import { every, type Timer } from '../clock.ts'

/** The signer rejects tokens if its list is older than 60 s. Revocations by other processes wait for the next list. */
const PUBLISH_EVERY_MS = 5_000
/** Concurrent sign-outs share a list: verifying 36,000 entries takes the signer about 25 ms on one core. */
const PUBLISH_AGAIN_MS = 500
/** Maximum JSON of one part, in bytes: base64 adds a third, and a frame holds 524,288. */
const PART_BYTES = 300_000

export type Publisher = {
  /** Reads, signs and sends a list that includes everything committed before the call. */
  publish: () => Promise<void>
  /** Publishes immediately, or half a second after the previous list. If it fails, the next list makes up for it. */
  soon: () => void
  stop: () => void
}

const publishers = slot('the publisher of revocations', (_app: App): { publisher: Publisher | null } => ({
  publisher: null,
}))

/** Publishes a list soon, so that the signer learns of a revocation. Does nothing in a process without a publisher. */
export const publishSoon = (app: App): void => publishers.of(app).publisher?.soon()

/**
 * Publishes a list that includes everything committed before the call. Does nothing in a process without a publisher.
 */
export const publishNow = async (app: App): Promise<void> => publishers.of(app).publisher?.publish()

/**
 * Starts publishing revocations to the signer. The authorization server signs the list. So a process that only forwards
 * it cannot change it, nor hold it back for long: with an old list, the signer accepts no token.
 *
 * Every replica sends its own list. Its time is the database's, read before the contents of the list: so of two lists,
 * the later one includes everything in the earlier one.
 */
export function startRevocations(app: App, keys: PrivateKeys): Publisher {
  let next: Promise<void> | null = null
  let hasFailed = false
  let startedAt = -Infinity
  let soon: Timer | undefined
  const rounds = every(app.clock, PUBLISH_EVERY_MS, publishAndTell)
  const publisher: Publisher = {
    publish,
    soon() {
      const { after, ticks } = app.clock
      soon ??= after(Math.max(0, startedAt + PUBLISH_AGAIN_MS - ticks()), () => {
        soon = undefined
        void publish().catch(() => {})
      }).unref()
    },
    stop() {
      void rounds.stop()
      soon?.cancel()
      publishers.of(app).publisher = null
    },
  }
  publishers.of(app).publisher = publisher
  return publisher

  /**
   * Publishes one list at a time. A call during a publication starts another one, because the running one may have read
   * too early.
   */
  function publish(): Promise<void> {
    const running = rounds.current()
    if (running === null) return rounds.round()
    next ??= running
      .catch(() => {})
      .then(() => {
        next = null
        return rounds.round()
      })
    return next
  }

  async function publishAndTell(): Promise<void> {
    startedAt = app.clock.ticks()
    try {
      await publishOnce(app, keys)
      hasFailed = false
    } catch (error) {
      // Log once per outage: other code logs an unavailable signer as well.
      if (!hasFailed) app.telemetry.log.warn('revocations_not_published', { reason: reasonOf(error) }, error)
      hasFailed = true
      throw error
    }
  }
}

async function publishOnce(app: App, { keys }: PrivateKeys): Promise<void> {
  const { iat, entries } = await readRevoked(app)
  const parts = split(entries)
  if (parts.length > MAX_REVOCATION_PARTS) {
    // With an incomplete list, revoked tokens could still sign. Without a list, the signer rejects every token.
    throw new Error(`${entries.length} revocations are more than a list holds: shorten ACCESS_TOKEN_SECONDS`)
  }
  const signing = keys.find(({ alg }) => alg === 'ES256')!
  const key = await importJWK(signing, 'ES256')
  const jti = randomUUID()
  const sign = (list: RevocationList) =>
    new SignJWT(list)
      .setProtectedHeader({ alg: 'ES256', typ: REVOCATIONS_TYPE, kid: signing.kid })
      .setIssuer(issuerOf(app))
      .sign(key)
  const lists = await Promise.all(parts.map((own, part) => sign({ iat, jti, part, parts: parts.length, entries: own })))
  await app.signer.bringRevocations(lists)
}

/**
 * Reads the revocations that were committed before `iat`: grants whose access tokens may still live, suspended
 * applications, applications that may not write (the signer does nothing else for a token), and frozen users.
 */
async function readRevoked({ db }: App): Promise<Pick<RevocationList, 'iat' | 'entries'>> {
  const { rows } = await sql<{ seconds: string }>`select extract(epoch from now())::text as seconds`.execute(db)
  const [grants, applications, users] = [
    await db
      .selectFrom('revoked_grants')
      .select('grant_id')
      .where('forget_at', '>', sql<Date>`now()`)
      .execute(),
    await db
      .selectFrom('applications')
      .select([
        'client_id',
        'suspended_at',
        'resumed_at',
        sql<boolean>`permissions @> '["contracts:write"]'::jsonb`.as('writes'),
      ])
      .where(({ or, eb }) =>
        or([
          eb('suspended_at', 'is not', null),
          eb('resumed_at', 'is not', null),
          sql<boolean>`not permissions @> '["contracts:write"]'::jsonb`,
        ]),
      )
      .execute(),
    await db
      .selectFrom('accounts')
      .select(['user_id', 'frozen_at', 'unfrozen_at'])
      .where(({ or, eb }) => or([eb('frozen_at', 'is not', null), eb('unfrozen_at', 'is not', null)]))
      .execute(),
  ]
  return {
    iat: Number(rows[0]!.seconds),
    entries: [
      ...applications.flatMap(({ client_id, suspended_at, resumed_at, writes }) => {
        const subject = revoked.application(client_id)
        return [
          ...(suspended_at !== null || !writes ? [subject] : []),
          ...frozenSince(subject, suspended_at, resumed_at),
        ]
      }),
      ...users.flatMap(({ user_id, frozen_at, unfrozen_at }) => {
        const subject = revoked.user(user_id)
        return [...(frozen_at === null ? [] : [subject]), ...frozenSince(subject, frozen_at, unfrozen_at)]
      }),
      ...grants.map(({ grant_id }) => revoked.grant(grant_id)),
    ],
  }
}

/** Returns the entry that freezes or unfreezes a subject at the signer; none if it was never frozen. */
function frozenSince(subject: string, frozenAt: Date | null, unfrozenAt: Date | null): string[] {
  // An entry cannot hold a time before 1970.
  if (frozenAt !== null) return [frozenEntry(subject, { isFrozen: true, at: Math.max(0, frozenAt.getTime()) })]
  return unfrozenAt === null ? [] : [frozenEntry(subject, { isFrozen: false, at: Math.max(0, unfrozenAt.getTime()) })]
}

/** Splits the entries into parts. There is at least one: an empty list says that nothing is revoked. */
function split(entries: string[]): string[][] {
  const parts: string[][] = [[]]
  let bytes = 0
  for (const entry of entries) {
    const more = Buffer.byteLength(JSON.stringify(entry)) + 1
    if (bytes + more > PART_BYTES) {
      parts.push([])
      bytes = 0
    }
    bytes += more
    parts.at(-1)!.push(entry)
  }
  return parts
}

/** Returns only messages of ours: a foreign error may contain an address with a password. */
const reasonOf = (error: unknown): string =>
  error instanceof AppError || (error instanceof Error && error.name === 'SignerRefused') ? error.message : 'see error'
