import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/kit/ports.ts'
import type { DevelopmentFacts } from '../src/devnet/development.ts'
import {
  emptyPostgres,
  migratedFolder,
  migratedPostgres,
  testCluster,
  type PostgresDatabase,
} from '../test/kit/database.ts'
import { until } from '../test/kit/until.ts'

const launcher = fileURLToPath(new URL('../scripts/run.mjs', import.meta.url))

/** The real program, started as a newcomer starts it. */
export type Program = {
  facts: DevelopmentFacts
  port: number
  dataDir: string
  /** everything it printed */
  printed(): string
  /** ends it as Ctrl-C does; resolves with the exit code */
  interrupt(): Promise<number | null>
  /** SIGKILL of every process of it at once */
  kill(): Promise<void>
}

export type Place = {
  dataDir: string
  port: number
  env: Record<string, string>
  /** ends whatever still runs there, and leaves nothing behind */
  drop(): Promise<void>
}

/** One installation that has never been started: its first start makes everything, as a newcomer sees it. */
export const newPlace = async (): Promise<Place> =>
  placeIn(await newFolder(), testCluster === null ? null : await emptyPostgres(testCluster), {})

/** The same whose database is migrated, and whose chain makes a block as soon as somebody waits for it. */
export async function place(): Promise<Place> {
  const dataDir = await newFolder()
  if (testCluster === null) await migratedFolder(join(dataDir, 'db'))
  const database = testCluster === null ? null : await migratedPostgres(testCluster)
  return placeIn(dataDir, database, { CHAIN_BLOCK_SECONDS: '0.05' })
}

const newFolder = (): Promise<string> => mkdtemp(join(tmpdir(), 'chatelaine-e2e-'))

/** A folder, two ports and, on PostgreSQL, a database for one installation. */
async function placeIn(
  dataDir: string,
  database: PostgresDatabase | null,
  settings: Record<string, string>,
): Promise<Place> {
  return {
    dataDir,
    port: await freePort(),
    env: {
      RATE_LIMITS: 'off',
      CHAIN_PORT: String(await freePort()),
      ...(database === null ? {} : { DATABASE_URL: database.url }),
      ...settings,
    },
    drop: async () => {
      await until('nothing is left', async () => {
        const left = await processesOf(dataDir)
        for (const { pid } of left) killNow(pid)
        return left.length === 0
      })
      await database?.drop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Runs `npm start`'s command and waits until it says that it is ready; `place.drop` ends what did not come so far. */
export async function start({ dataDir, port, env }: Place): Promise<Program> {
  const { child, printed } = launch({ dataDir, port, env })
  const look = async () => {
    if (child.exitCode !== null) throw new Error(`it ended with code ${child.exitCode}:\n${printed()}`)
    return printed().includes('Ctrl-C stops everything')
  }
  await until('the program is ready', look)
  const facts = JSON.parse(await readFile(join(dataDir, 'dev.json'), 'utf8')) as DevelopmentFacts
  // On a slow machine the follower may be late at its node for a moment.
  await until('what says that it is ready is', async () => (await fetch(`${facts.origin}/readyz`)).status === 200)
  const gone = once(child, 'exit')
  return {
    facts,
    port,
    dataDir,
    printed,
    interrupt: async () => {
      child.kill('SIGINT')
      await gone
      return child.exitCode
    },
    kill: async () => {
      for (const pid of await family(child.pid!)) killNow(pid)
      await gone
    },
  }
}

/** One installation for all tests of a file: there before the first of them, gone after the last. */
export function installation(findPlace: () => Promise<Place> = place): {
  readonly here: Place
  readonly program: Program
} {
  let here: Place
  let program: Program
  before(async () => {
    here = await findPlace()
    program = await start(here)
  })
  after(async () => {
    await program?.interrupt()
    await here?.drop()
  })
  return {
    get here() {
      return here
    },
    get program() {
      return program
    },
  }
}

/** Starts it without waiting: for starts that must fail. */
export function launch({ dataDir, port, env }: { dataDir: string; port: number; env: Record<string, string> }): {
  child: ChildProcess
  printed(): string
  ended: Promise<number | null>
} {
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(process.execPath, [launcher, 'start'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH, HOME, TMPDIR, DATA_DIR: dataDir, PORT: String(port), ...env },
  })
  let text = ''
  child.stdout!.on('data', (chunk: Buffer) => (text += chunk.toString()))
  child.stderr!.on('data', (chunk: Buffer) => (text += chunk.toString()))
  return { child, printed: () => text, ended: once(child, 'exit').then(() => child.exitCode) }
}

/** A process and all its descendants, whatever groups they made for themselves. */
export async function family(pid: number): Promise<number[]> {
  const parents = new Map<number, number>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    if (stat !== '') parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  }
  const found = [pid]
  for (let index = 0; index < found.length; index++)
    for (const [child, parent] of parents) if (parent === found[index]) found.push(child)
  return found
}

/** Living processes whose command line or environment names a folder. */
export async function processesOf(dataDir: string): Promise<{ pid: number; line: string }[]> {
  const found = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue
    const [line, environment] = await Promise.all(
      ['cmdline', 'environ'].map((file) => readFile(`/proc/${name}/${file}`, 'utf8').catch(() => '')),
    )
    if (`${line}${environment}`.includes(dataDir)) found.push({ pid: Number(name), line: line!.replaceAll('\0', ' ') })
  }
  return found
}

function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended by itself in between.
  }
}
