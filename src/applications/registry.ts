/**
 * applications: OAuth clients, their networks, and their identity providers.
 * Owns: registration, secrets as hashes, permissions, redirect URIs and origins; networks, and the file of their nodes.
 * Does not own: consents (`oauth/`), the open connection to a network (`chain/`).
 * Start with `manage.ts` for changes, `open-networks.ts` for networks.
 * Tables: application_providers, application_users, applications, networks.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { RowReader } from '../http/authentic-row.ts'
import { retrying, type Db } from '../store/db.ts'
import { sponsorBudgetOf } from '../store/sponsor-budget.ts'
import { inTransaction } from '../store/transaction.ts'
import type { Application } from './application.ts'
import { isApplicationAuthentic, sealApplication } from './authentic.ts'
import { explainApplication } from './validate.ts'
import { isPermission } from './permissions.ts'
import { coversRedirect } from './redirects.ts'
import { columnsOf, damagedColumn, issuersIn, settingsIn, unsaid, writtenBudget } from './stored.ts'
import { slot } from '../state.ts'

const CACHE_MS = 5_000
const MAX_CACHED = 10_000
type RegistryContext = Pick<App, 'clock' | 'db' | 'state' | 'sealKeys' | 'telemetry'>
type Cached = { application: Application | null; readAt: number }
const caches = slot('applications', (_app: Pick<App, 'state'>) => new Map<string, Cached>())

/**
 * Finds an application, as it was at most 5 seconds ago; null if there is none with a valid seal and form. Suspended
 * ones are returned, marked so.
 */
export async function findApplication(app: RegistryContext, clientId: string): Promise<Application | null> {
  // PostgreSQL rejects NUL, and no client id is this long.
  if (clientId.length > 255 || clientId.includes('\0')) return null
  const cache = caches.of(app)
  const cached = cache.get(clientId)
  if (cached !== undefined && app.clock.wall() - cached.readAt < CACHE_MS) return cached.application
  const application = await readApplication(app, clientId)
  if (cache.size >= MAX_CACHED) cache.clear()
  cache.set(clientId, { application, readAt: app.clock.wall() })
  return application
}

/**
 * Registers an application, or replaces its settings.
 * @throws Error  naming everything that cannot be registered
 */
export async function saveApplication(
  { db: root, sealKeys }: Pick<App, 'db' | 'sealKeys'>,
  application: Omit<Application, 'sponsor'> & Partial<Pick<Application, 'sponsor'>>,
): Promise<void> {
  const problems = explainApplication({ ...application, sponsor: null })
  if (problems.length > 0)
    throw new Error(
      `the application ${application.clientId} cannot be saved: ${problems.map(({ detail }) => detail).join(' ')}`,
    )
  const { quotas: _, weight: __, ...others } = unsaid
  const values = {
    chain_id: application.chainId,
    kind: application.kind,
    secret_hashes: JSON.stringify(application.secretHashes),
    suspended_at: application.isSuspended ? sql<Date>`now()` : null,
    ...columnsOf({ ...others, ...application, sponsor: writtenBudget(application.sponsor ?? null) }),
  }
  await retrying(() =>
    inTransaction(root, async (db) => {
      await db
        .insertInto('applications')
        .values({ client_id: application.clientId, ...values } as never)
        .onConflict((on) => on.column('client_id').doUpdateSet(values as never))
        .execute()
      await sealApplication({ db, sealKeys }, application.clientId)
    }),
  )
}

/** Makes this process read an application again. */
export function forgetApplication(app: Pick<App, 'state'>, clientId: string): void {
  caches.of(app).delete(clientId)
}

/** Notes that a user signed in to an application. */
export async function noteUser(
  db: Db,
  { clientId, accountId }: { clientId: string; accountId: string },
): Promise<void> {
  await db
    .insertInto('application_users')
    .values({ client_id: clientId, account_id: accountId })
    .onConflict((on) => on.doNothing())
    .execute()
}

/** Deletes the note that a user signed in to an application: it can no longer read them by itself. */
export async function forgetUse(
  db: Db,
  { clientId, accountId }: { clientId: string; accountId: string },
): Promise<void> {
  await db
    .deleteFrom('application_users')
    .where('client_id', '=', clientId)
    .where('account_id', '=', accountId)
    .execute()
}

/** Deletes the notes of all applications that a user signed in to. */
export async function forgetUses(db: Db, accountId: string): Promise<void> {
  await db.deleteFrom('application_users').where('account_id', '=', accountId).execute()
}

/** Returns whether a redirect URI is covered by one of the application's. */
export const isRedirectAllowed = ({ redirectUris }: Application, asked: string): boolean =>
  redirectUris.some((registered) => coversRedirect(registered, asked))

/**
 * Returns whether a browser may be sent to an address after signing out: one that is registered for it, any redirect
 * URI, or the front page of a registered origin. Other pages of an origin are excluded: one that redirects could lead
 * anywhere.
 */
export const isPostLogoutAllowed = (application: Application, asked: string): boolean =>
  isRedirectAllowed(application, asked) ||
  (application.postLogoutRedirectUris ?? []).some((registered) => coversRedirect(registered, asked)) ||
  application.allowedOrigins.some((origin) => asked === origin || asked === `${origin}/`)

/** Returns whether pages of this origin may call in the application's name. */
export const isOriginAllowed = ({ allowedOrigins }: Pick<Application, 'allowedOrigins'>, origin: string): boolean =>
  allowedOrigins.some((allowed) => allowed === origin || coversRedirect(`${allowed}/`, `${origin}/`))

/** Returns whether a secret is right. It compares with each live secret, in constant time. */
export function isSecretRight({ secretHashes }: Application, secret: string): boolean {
  const digest = createHash('sha256').update(secret).digest()
  return secretHashes.map((hash) => timingSafeEqual(digest, Buffer.from(hash, 'hex'))).includes(true)
}

async function readApplication(app: RowReader & Pick<App, 'db'>, clientId: string): Promise<Application | null> {
  const row = await app.db.selectFrom('applications').selectAll().where('client_id', '=', clientId).executeTakeFirst()
  if (row === undefined || !isApplicationAuthentic(app, row)) return null
  const column = damagedColumn(row)
  if (column !== null) {
    app.telemetry.log.error('row_damaged', { table: 'applications', clientId, column })
    return null
  }
  return {
    clientId: row.client_id,
    chainId: row.chain_id,
    kind: row.kind,
    ...settingsIn(row),
    permissions: row.permissions.filter(isPermission),
    secretHashes: row.secret_hashes,
    isSuspended: row.suspended_at !== null,
    sponsor: sponsorBudgetOf(row),
    issuers: issuersIn(row.issuers),
  }
}
