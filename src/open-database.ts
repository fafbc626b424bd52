import { join } from 'node:path'
import type { Config } from './config.ts'
import { reasonOf } from './store/away.ts'
import { openEmbedded, openPostgres, type RootDb } from './store/db.ts'
import { assertMigrated, migrate } from './store/migrate.ts'
import type { PoolOptions } from './store/pool.ts'
import type { Telemetry } from './telemetry.ts'

type PoolObservers = Required<Pick<PoolOptions, 'onLost' | 'onWait'>> & Pick<PoolOptions, 'onFailure'>

/**
 * Opens the database and migrates it, or, with AUTH_SOCKET, checks that it is migrated.
 * @throws Error  naming the setting, never the connection string, which holds a password
 */
export async function openDatabase(config: Config, telemetry: Telemetry, told: PoolObservers): Promise<RootDb> {
  const dir = join(config.DATA_DIR, 'db')
  try {
    return await openMigrated(config, dir, telemetry, told)
  } catch (error) {
    const why = reasonOf(error) ?? 'no reason given'
    const which = config.DATABASE_URL === undefined ? `in ${dir}` : 'at DATABASE_URL'
    throw new Error(`the database ${which} cannot be used: ${why}`, { cause: error })
  }
}

/** Instruction for several writable servers, of which the latest promotion is unknown. */
const UNDECIDED =
  'stop all but the one that was promoted last; to find it, the role needs the right to execute pg_walfile_name and pg_current_wal_insert_lsn'

async function openMigrated(config: Config, dir: string, { log }: Telemetry, told: PoolObservers): Promise<RootDb> {
  const db =
    config.DATABASE_URL === undefined
      ? await openEmbedded({ dir })
      : await openPostgres({
          ...databaseOf(config, config.DATABASE_URL),
          onError: (error) => log.warn('database_unavailable', {}, error),
          onBack: (absence) => log.warn('database_recovered', absence),
          ...told,
          onPrimary: (host) => log.warn('database_primary', { host }),
          onSecondPrimary: (hosts) => log.error('database_two_primaries', { hosts }),
          onUndecided: (hosts) => log.error('database_primary_undecided', { hosts, hint: UNDECIDED }),
        })
  try {
    // With separate programs, neither owns the tables.
    await (config.AUTH_SOCKET === undefined ? migrate(db) : assertMigrated(db))
    return db
  } catch (error) {
    await db.destroy()
    throw error
  }
}

/** Reads the connection settings, for the server and the commands. */
function databaseOf(
  settings: Pick<Config, 'DATABASE_POOL' | 'DATABASE_POOLER' | 'DATABASE_PREPARED'>,
  url: string,
): { url: string; pool: number; pooler: 'none' | 'transaction'; prepares?: boolean } {
  const { DATABASE_POOL: pool, DATABASE_POOLER: pooler, DATABASE_PREPARED: prepared } = settings
  return { url, pool, pooler, ...(prepared === undefined ? {} : { prepares: prepared === 'on' }) }
}
