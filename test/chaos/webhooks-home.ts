import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { newSealKey, sealKeysOf } from '../../src/oauth/seal-keys.ts'
import type { PrivateKeys } from '../../src/oauth/keys.ts'
import { openEmbedded, type RootDb } from '../../src/store/db.ts'
import type { SealKeys } from '../../src/store/seal.ts'
import { migratedFolder, testDatabase } from '../kit/database.ts'
import { fractionsOf } from '../random.ts'
import { throughProcess } from './statements.ts'
import { chaosWorld } from './transactions-world.ts'

/** A file below src/, a text that is in it once, and its replacement. */
export type Patch = [file: string, from: string, to: string]

/** Processes that deliver, and their database. */
export type WebhookHome = {
  where: string
  /** Before there is a process. */
  prepare<T>(fill: (place: { db: RootDb; sealKeys: SealKeys }) => Promise<T>): Promise<T>
  start(): Promise<void>
  /** Statements here fail when the process dies that holds an embedded database. */
  db: RootDb
  replicas: number
  /** Sends SIGKILL to a process, which starts again. @returns false  it is not there */
  kill(index: number): boolean
  close(): Promise<void>
}

/** The delays of the schedule, divided by 1,000. */
const HURRY: Patch[] = [['webhooks/schedule.ts', '[1_000, 60_000, 3_600_000]', '[1, 60, 3_600]']]
/** How long a process that died holds a webhook. The rest is in proportion to it. */
const leaseOf = (ms: number): Patch[] => [
  ['webhooks/progress.ts', 'LEASE_MS = 40_000', `LEASE_MS = ${ms}`],
  ['webhooks/post.ts', 'PATIENCE_MS = 15_000', `PATIENCE_MS = ${ms * 0.4}`],
  ['webhooks/deliver.ts', 'PATIENCE_MS + 5_000', `PATIENCE_MS + ${ms * 0.1}`],
]
const LOADER = new URL('webhooks-patches.mjs', import.meta.url).href
const PROGRAM = new URL('webhooks-program.ts', import.meta.url).pathname

/** Whole servers on PostgreSQL: the program with everything that it does beside. */
export async function openServers(cluster: string, replicas: number): Promise<WebhookHome> {
  const world = await chaosWorld({
    ...{ roll: fractionsOf(1), replicas, accounts: 1, cluster },
    settings: { NODE_OPTIONS: `--import=${LOADER}`, CHAOS_PATCHES: JSON.stringify([...HURRY, ...leaseOf(10_000)]) },
  })
  const { seals } = JSON.parse(await readFile(join(world.folder, 'auth-keys.json'), 'utf8')) as PrivateKeys
  return {
    ...{ where: `${replicas} servers on PostgreSQL`, replicas, db: world.db!, close: world.close },
    prepare: (fill) => fill({ db: world.db!, sealKeys: sealKeysOf(seals) }),
    start: async () => {},
    kill: (index) => {
      const server = world.servers[index]!
      if (!server.isReady()) return false
      server.signal('SIGKILL')
      return true
    },
  }
}

/** Processes that only deliver, on PostgreSQL. */
export async function openCouriers(replicas: number, patches: readonly Patch[] = []): Promise<WebhookHome> {
  const { db, url, close } = await testDatabase()
  const seals = [newSealKey()]
  const processes = keepRunning(replicas, { CHAOS_DATABASE: url!, CHAOS_SEALS: JSON.stringify(seals) }, [
    ...HURRY,
    ...leaseOf(4_000),
    ...patches,
  ])
  return {
    ...{ where: `${replicas} processes on PostgreSQL`, replicas, db, kill: processes.kill },
    prepare: (fill) => fill({ db, sealKeys: sealKeysOf(seals) }),
    start: async () => processes.start(),
    close: async () => {
      await processes.stop()
      await close()
    },
  }
}

/** A process that only delivers, on the embedded database. */
export async function openEmbeddedCourier(patches: readonly Patch[] = []): Promise<WebhookHome> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-couriers-'))
  const dir = join(folder, 'db')
  await migratedFolder(dir)
  const seals = [newSealKey()]
  const env = { CHAOS_FOLDER: dir, CHAOS_SEALS: JSON.stringify(seals) }
  const processes = keepRunning(1, env, [...HURRY, ...patches], () => void endLeases().catch(() => {}))
  const db = throughProcess(() => processes.children()[0] ?? null)
  // The one process that can hold the database is dead: nobody waits for its leases.
  const endLeases = () => sql`update webhooks set lease_ends_at = null`.execute(db)
  return {
    ...{ where: 'one process on the embedded database', replicas: 1, kill: processes.kill, db },
    prepare: async (fill) => {
      const db = await openEmbedded({ dir })
      return fill({ db, sealKeys: sealKeysOf(seals) }).finally(() => db.destroy())
    },
    start: async () => processes.start(),
    close: async () => {
      await processes.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Processes that start again whenever they die. */
function keepRunning(
  replicas: number,
  env: Record<string, string>,
  patches: readonly Patch[],
  startedAgain: () => void = () => {},
) {
  const children: (ChildProcess | null)[] = Array.from({ length: replicas }, () => null)
  let isOver = false
  const start = (index: number): void => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--import', LOADER, PROGRAM], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
      env: { ...process.env, ...env, CHAOS_PATCHES: JSON.stringify(patches) },
    })
    children[index] = child
    child.once('exit', () => {
      children[index] = null
      if (isOver) return
      start(index)
      startedAgain()
    })
  }
  return {
    start: () => children.forEach((_, index) => start(index)),
    children: () => children.filter((child) => child !== null),
    kill: (index: number): boolean => children[index]?.kill('SIGKILL') ?? false,
    stop: async () => {
      isOver = true
      await Promise.all(
        children.map(async (child) => {
          if (child === null) return
          child.kill('SIGKILL')
          await once(child, 'exit')
        }),
      )
    },
  }
}
