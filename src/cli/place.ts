import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  createApplication,
  listApplications,
  readApplication,
  resetSecret,
  resumeApplication,
  rotateSecret,
  suspendApplication,
  updateApplication,
  type Changes,
  type Draft,
  type Registered,
} from '../applications/manage.ts'
import { listNetworks, type ListedNetwork } from '../applications/networks.ts'
import { readSome } from '../config.ts'
import { openEmbedded, openPostgres, type RootDb } from '../store/db.ts'
import { FolderInUse, lockFolder } from '../store/folder-lock.ts'
import { migrate } from '../store/migrate.ts'
import { reachOperator } from './reach.ts'

/** What the commands do, with the database in their own hands or through a server that holds it. */
export type Registry = {
  list(): Promise<Registered[]>
  read(clientId: string): Promise<Registered>
  create(draft: Draft): Promise<{ application: Registered; secret: string | null }>
  update(clientId: string, changes: Changes): Promise<Registered>
  rotateSecret(clientId: string): Promise<{ application: Registered; secret: string }>
  resetSecret(clientId: string): Promise<{ application: Registered; secret: string }>
  suspend(clientId: string): Promise<Registered>
  resume(clientId: string): Promise<Registered>
  networks(): Promise<(ListedNetwork & { isServed?: boolean })[]>
}

export type Place = { dataDir: string; databaseUrl: string | undefined; networksFile: string }

const PAGE = 200

/** Where the installation is, from the settings of the server. */
export function findPlace(env: Record<string, string | undefined> = process.env): Place {
  const { DATA_DIR, DATABASE_URL, NETWORKS_FILE } = readSome(env, ['DATA_DIR', 'DATABASE_URL', 'NETWORKS_FILE'])
  // Without it the command would quietly work on another database than the server.
  if (env.NODE_ENV === 'production' && DATABASE_URL === undefined)
    throw new Error('DATABASE_URL is missing: in production the commands need the database of the server.')
  return {
    dataDir: DATA_DIR,
    databaseUrl: DATABASE_URL,
    networksFile: NETWORKS_FILE ?? join(DATA_DIR, 'networks.json'),
  }
}

/**
 * Works on the registry: in the database, or through the running server where that holds the embedded database, which
 * lets one process in.
 */
export async function withRegistry<T>(work: (registry: Registry) => Promise<T>): Promise<T> {
  const place = findPlace()
  try {
    return await withDatabase(place, (db) => work(registryIn(db)))
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    return work(await reachOperator(place, error.pid))
  }
}

/** @throws FolderInUse when another process holds the embedded database */
export async function withDatabase<T>(place: Place, work: (db: RootDb) => Promise<T>): Promise<T> {
  if (place.databaseUrl !== undefined)
    return using(await openPostgres({ url: place.databaseUrl, pool: 2, onError: () => {} }), work)
  const dir = join(place.dataDir, 'db')
  if (!existsSync(dir))
    throw new Error(
      `There is no installation in ${place.dataDir}: start the server once, or set DATA_DIR or DATABASE_URL.`,
    )
  const unlock = await lockFolder(place.dataDir)
  try {
    return await using(await openEmbedded({ dir }), work)
  } finally {
    await unlock()
  }
}

async function using<T>(db: RootDb, work: (db: RootDb) => Promise<T>): Promise<T> {
  try {
    await migrate(db)
    return await work(db)
  } finally {
    await db.destroy()
  }
}

const registryIn = (db: RootDb): Registry => ({
  list: () => allPages((after) => listApplications(db, { after, limit: PAGE })),
  read: (clientId) => readApplication(db, clientId),
  create: (draft) => createApplication(db, draft),
  update: (clientId, changes) => updateApplication(db, clientId, changes),
  rotateSecret: (clientId) => rotateSecret(db, clientId),
  resetSecret: (clientId) => resetSecret(db, clientId),
  suspend: (clientId) => suspendApplication(db, clientId),
  resume: (clientId) => resumeApplication(db, clientId),
  networks: () => listNetworks(db),
})

/** Every page of a list, one after the other. */
export async function allPages(page: (after: string) => Promise<Registered[]>): Promise<Registered[]> {
  const all: Registered[] = []
  for (;;) {
    const next = await page(all.at(-1)?.clientId ?? '')
    all.push(...next)
    if (next.length < PAGE) return all
  }
}
