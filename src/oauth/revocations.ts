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

/** The signer refuses tokens when its list is older than 60 s; other processes' revocations wait for the next one. */
const PUBLISH_EVERY_MS = 5_000
/** Many sign-outs at once share a list: at 36,000 entries one costs the signer about 25 ms (verified, on one core). */
const PUBLISH_AGAIN_MS = 500
/** bytes of JSON in one part; base64 makes a third more of it, and a frame holds 524,288 */
const PART_BYTES = 300_000

export type Publisher = {
  /** Reads, signs and brings a list that holds everything committed before the call. */
  publish: () => Promise<void>
  /** The same immediately, or half a second after the one before. A failure is made up for by the next. */
  soon: () => void
  stop: () => void
}

const publishers = slot('the publisher of revocations', (_app: App): { publisher: Publisher | null } => ({
  publisher: null,
}))

/** Tells the signer of a revocation immediately; nothing happens in a process without a publisher. */
export const publishSoon = (app: App): void => publishers.of(app).publisher?.soon()

/** A list that knows everything committed before the call; nothing happens in a process without a publisher. */
export const publishNow = async (app: App): Promise<void> => publishers.of(app).publisher?.publish()

/**
 * Keeps the signer informed of what is revoked. The list is signed by the authorization server, so anyone who only carries it
 * can neither change it nor hold it back for long: the signer accepts no token on an old one.
 *
 * Every replica brings its own. Its time is the database's, read before what the list says: of two lists the later one
 * knows everything that the earlier one knew.
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

  /** One at a time: asked for during one, another follows, for the one under way may have read too early. */
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
      // Once per outage: a signer that is away says so elsewhere, too.
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
    // Less than all would let some of them continue signing; without a list the signer refuses every token.
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
 * Grants whose access tokens may still live, suspended applications and those that may not write (the signer does
 * nothing else for a token), frozen users; all that was committed before `iat`.
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

/** What the signer keeps, and what lets it go: one of the two, or nothing where there was never a freeze. */
function frozenSince(subject: string, frozenAt: Date | null, unfrozenAt: Date | null): string[] {
  // Before 1970 an entry says nothing.
  if (frozenAt !== null) return [frozenEntry(subject, { isFrozen: true, at: Math.max(0, frozenAt.getTime()) })]
  return unfrozenAt === null ? [] : [frozenEntry(subject, { isFrozen: false, at: Math.max(0, unfrozenAt.getTime()) })]
}

/** At least one part: a list that is empty says that nothing is revoked. */
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

/** Sentences of ours only: a foreign error may hold an address with a password. */
const reasonOf = (error: unknown): string =>
  error instanceof AppError || (error instanceof Error && error.name === 'SignerRefused') ? error.message : 'see error'
