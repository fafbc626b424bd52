import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readSome, type Config, type Environment } from '../config.ts'
import { FolderInUse, lockFolder } from '../folder-lock.ts'
import { openEmbedded, openPostgres, type RootDb } from '../store/db.ts'
import { assertMigrated, migrate } from '../store/migrate.ts'
import { openOperator, registryThrough, type AskOperator } from './reach.ts'
import { registryIn, type Registry } from './registry.ts'

export type InstallationSettings = {
  dataDir: string
  databaseUrl: string | undefined
  pooler: 'none' | 'transaction'
  networksFile: string
  /** the tables belong to another role, which migrates them */
  isApart: boolean
}

/** Reads from the server's settings where the installation is. */
export function readInstallationSettings(env: Environment): InstallationSettings {
  const { DATA_DIR, DATABASE_URL, DATABASE_POOLER, NETWORKS_FILE } = readSome(env, [
    'DATA_DIR',
    'DATABASE_URL',
    'DATABASE_POOLER',
    'NETWORKS_FILE',
  ])
  // Without it, the command would silently use another database than the server.
  if (env.NODE_ENV === 'production' && DATABASE_URL === undefined)
    throw new Error('DATABASE_URL is missing: in production, commands use the database of the server.')
  return {
    dataDir: DATA_DIR,
    databaseUrl: DATABASE_URL,
    pooler: DATABASE_POOLER,
    networksFile: networksFileOf({ NETWORKS_FILE, DATA_DIR }),
    isApart: (env.AUTH_SOCKET ?? '') !== '',
  }
}

/** Returns the path of the file with the node URLs. */
export const networksFileOf = ({ NETWORKS_FILE, DATA_DIR }: Pick<Config, 'NETWORKS_FILE' | 'DATA_DIR'>): string =>
  NETWORKS_FILE ?? join(DATA_DIR, 'networks.json')

/** Works on the registry: in the database, or through the running server. */
export const withRegistry = <T>(env: Environment, work: (registry: Registry) => Promise<T>): Promise<T> =>
  withDatabaseOrServer(
    env,
    (db) => work(registryIn(env, db)),
    (ask) => work(registryThrough(ask)),
  )

/**
 * Works on the database, or through the running server if that holds the embedded database, which only one process may
 * use.
 */
export async function withDatabaseOrServer<T>(
  env: Environment,
  work: (db: RootDb) => Promise<T>,
  through: (ask: AskOperator) => Promise<T>,
): Promise<T> {
  const settings = readInstallationSettings(env)
  try {
    return await withDatabase(settings, work)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    return through(await openOperator(settings.dataDir, error.holder))
  }
}

/**
 * Opens the database, migrates it and works on it.
 * @throws FolderInUse if another process holds the embedded database
 */
export async function withDatabase<T>(settings: InstallationSettings, work: (db: RootDb) => Promise<T>): Promise<T> {
  const { databaseUrl: url, pooler } = settings
  if (url !== undefined)
    return using(await openPostgres({ url, pooler, pool: 2, onError: () => {} }).catch(named), settings, work)
  const dir = join(settings.dataDir, 'db')
  if (!existsSync(dir))
    throw new Error(
      `There is no installation in ${settings.dataDir}. Start the server once, or set DATA_DIR or DATABASE_URL.`,
    )
  const unlock = lockFolder(settings.dataDir)
  try {
    return await using(await openEmbedded({ dir }), settings, work)
  } finally {
    unlock()
  }
}

/** Completes a message about the connection string, which begins with “it”, by the name of the setting. */
function named(error: unknown): never {
  if (error instanceof Error && error.constructor === Error && !('code' in error))
    throw new Error(`DATABASE_URL cannot be used: ${error.message}.`, { cause: error })
  throw error
}

async function using<T>(
  db: RootDb,
  { isApart }: Pick<InstallationSettings, 'isApart'>,
  work: (db: RootDb) => Promise<T>,
): Promise<T> {
  try {
    await (isApart ? assertMigrated(db) : migrate(db))
    return await work(db)
  } finally {
    await db.destroy()
  }
}
