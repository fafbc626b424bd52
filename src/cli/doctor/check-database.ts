import { sql } from 'kysely'
import type { Diagnosis } from '../../findings.ts'
import { sqlState } from '../../store/away.ts'
import type { RootDb } from '../../store/db.ts'
import { compareMigrations } from '../../store/migrate.ts'
import { findForbidden, findMissingGrants, OF_API, OF_AUTH } from '../../store/roles.ts'
import type { Examined } from './patient.ts'
import { finding, ownWords } from './faults.ts'

/** Difference to the database's clock that may be the network's, milliseconds. */
const MAX_CLOCK_MS = 2_000
/** PostgreSQL settings without which a committed transaction may be lost. */
const DURABLE = ['fsync', 'full_page_writes', 'synchronous_commit']

/**
 * Checks PostgreSQL. Only a server opens the embedded database, because opening it writes to its files.
 * @returns  `db`: a handle for further checks, which the caller closes; null if it cannot be used
 */
export async function checkDatabase(
  examined: Omit<Examined, 'db'>,
): Promise<{ db: RootDb | null; findings: Diagnosis[] }> {
  const { config } = examined
  if (config.DATABASE_URL === undefined) return { db: null, findings: [] }
  let db: RootDb | null = null
  try {
    db = await examined.openDatabase(config)
    const [standing, migrations, roles, clock] = [
      await checkStanding(db),
      await checkMigrations(db),
      await checkRoles(db, examined),
      await checkClock(db, examined),
    ]
    const isUsable = !migrations.some(({ code }) => code !== 'migration_changed')
    const findings = [...standing, ...migrations, ...(isUsable ? roles : []), ...clock]
    if (isUsable) return { db, findings }
    await db.destroy()
    return { db: null, findings }
  } catch (error) {
    await db?.destroy().catch(() => {})
    const cause = (error as { cause?: unknown }).cause ?? error
    const why = sqlState(error) === 'database_unavailable' ? (sqlState(cause) ?? 'no answer') : ownWords(error)
    return { db: null, findings: [finding('database_unavailable', `the database at DATABASE_URL cannot be used: ${why}`)] } // prettier-ignore
  }
}

async function checkStanding(db: RootDb): Promise<Diagnosis[]> {
  const { rows } = await sql<{ readOnly: boolean; superuser: boolean }>`select
    pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' as "readOnly",
    current_setting('is_superuser') = 'on' as superuser`.execute(db)
  const { rows: settings } = await sql<{
    name: string
    value: string
  }>`select name, setting as value from pg_settings where name in (${sql.join(DURABLE)})`.execute(db)
  const off = settings.filter(({ value }) => value === 'off').map(({ name }) => name)
  return [
    ...(rows[0]!.readOnly ? [finding('database_read_only', 'the database rejects writes: it is a standby or read-only')] : []), // prettier-ignore
    ...(rows[0]!.superuser ? [finding('role_is_superuser', 'the role of DATABASE_URL is a superuser')] : []),
    ...(off.length > 0 ? [finding('database_not_durable', `the database may lose committed writes: ${off.join(', ')} off`)] : []), // prettier-ignore
  ]
}

async function checkMigrations(db: RootDb): Promise<Diagnosis[]> {
  const { missing, changed, newer } = await compareMigrations(db)
  return [
    ...missing.map((name) => finding('migration_missing', `the database lacks migration ${name}`)),
    ...changed.map((name) => finding('migration_changed', `migration ${name} was changed after it had been applied to this database`)), // prettier-ignore
    ...(newer === null ? [] : [finding('database_newer', `the database was migrated by a newer version: it has migration ${newer}`)]), // prettier-ignore
  ]
}

async function checkRoles(db: RootDb, { config, part }: Omit<Examined, 'db'>): Promise<Diagnosis[]> {
  if (config.AUTH_SOCKET === undefined) return []
  const { missing } = await compareMigrations(db)
  if (missing.length > 0) return []
  const [can, cannot] = [
    part === 'auth' ? [] : await findForbidden(db),
    await findMissingGrants(db, part === 'auth' ? OF_AUTH : OF_API),
  ]
  return [
    ...(can.length > 0 ? [finding('role_too_broad', `the role of DATABASE_URL can ${can.join(', ')}`)] : []),
    ...(cannot.length > 0 ? [finding('role_too_narrow', `the role of DATABASE_URL lacks ${cannot.slice(0, 5).join(', ')}${cannot.length > 5 ? ` and ${cannot.length - 5} more` : ''}`)] : []), // prettier-ignore
  ]
}

async function checkClock(db: RootDb, { clock }: Omit<Examined, 'db'>): Promise<Diagnosis[]> {
  const before = clock.wall()
  const { rows } = await sql<{ ms: string }>`select (extract(epoch from clock_timestamp()) * 1000)::bigint::text as ms`.execute(db) // prettier-ignore
  const after = clock.wall()
  const theirs = Number(rows[0]!.ms)
  const differs = Math.max(before - theirs, theirs - after, 0)
  if (differs <= MAX_CLOCK_MS) return []
  return [finding('clock_differs', `the clock of the database differs by ${Math.round(differs / 1_000)} s`)]
}
