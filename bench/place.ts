import { fork, spawn, type ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import type { Profiler } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findAnvil } from '../src/devnet/anvil-binary.ts'
import { deploySamples, type Samples } from '../src/devnet/deploy.ts'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'
import { emptyPostgres } from '../test/kit/database.ts'

/** What a benchmark starts: a node, the plain service, the program; ended with `end` in reverse order. */
export type Started = { url: string; pid: number; end(): Promise<void> }

/**
 * anvil with a block a second, or as many seconds as told, and the sample contracts; its own mining on every transaction
 * freezes it under load.
 * @param flags  more of anvil's
 */
export async function startNode({
  flags = [],
  blockSeconds = 1,
}: { flags?: string[]; blockSeconds?: number } = {}): Promise<Started & { contracts: Samples }> {
  const args = [
    '--port',
    '0',
    '--block-time',
    String(blockSeconds),
    '--chain-id',
    '31337',
    '--host',
    '127.0.0.1',
    '--prune-history',
    '64',
    ...flags,
  ]
  const child = spawn(findAnvil(), args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await firstMatch(child, /Listening on \S+:(\d+)/)
  const url = `http://127.0.0.1:${port}`
  await rpc(url, 'anvil_setLoggingEnabled', false)
  return { url, ...handleOf(child), contracts: await deploySamples(url) }
}

/** @param keys  private keys of the accounts that write */
export async function startPlainService(
  rpcUrl: string,
  { keys = [], estimatesAt = 'default' }: { keys?: Hex[]; estimatesAt?: 'default' | 'latest' } = {},
): Promise<Started> {
  const child = spawn(process.execPath, [new URL('plain-service.ts', import.meta.url).pathname], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production', RPC_URL: rpcUrl, KEYS: keys.join(), PLAIN_GAS: estimatesAt },
  })
  return { url: await firstMatch(child, /(http:\S+)/), ...handleOf(child) }
}

export type Person = { userId: string; token: string }
/** `commits`: transactions that wrote something; `requests`: HTTP requests to the node; `rpc`: calls in them, by method. */
export type Counts = { statements: number; commits: number; requests: number; rpc: Record<string, number> }
export type Program = Started & {
  /** access tokens of users of the development provider, who have accounts then, by an application that is made, of a weight */
  people(names: string[], application?: string, weight?: number): Promise<Person[]>
  /** an application with a feed, its secret, and access tokens of its users */
  feed(clientId: string, users: string[]): Promise<{ secret: string; people: Person[] }>
  /** bytes, after a garbage collection */
  memory(): Promise<NodeJS.MemoryUsage>
  /** by how much its event loop came late since the last time it was asked, 99th percentile, milliseconds */
  loopDelayMs(): Promise<number>
  /** the signer's process, which the program has started */
  signerPid: number
  /** null on the embedded database */
  databaseUrl: string | null
  /** settings of another program that serves the same users from the same database; PostgreSQL only */
  replicaSettings: Record<string, string>
  /** what it has asked of database and node so far */
  counts(): Promise<Counts>
  /** what its main thread does while `work` runs */
  profile(work: () => Promise<void>): Promise<Profiler.Profile>
  /** the address of an account that pays where NETWORK_GAS is `sponsor`; it has nothing, and no right to a space yet */
  sponsor(name: string): Promise<Hex>
  /** Resolves when no write is open. */
  settled(): Promise<void>
}

/**
 * The program on a node: on PostgreSQL when TEST_DATABASE_URL names a cluster, else on the embedded database.
 * @param flags  of Node.js, such as --cpu-prof
 */
export async function startProgram(
  rpcUrl: string,
  { settings = {}, flags = [] }: { settings?: Record<string, string>; flags?: string[] } = {},
): Promise<Program> {
  const dataDir = await mkdtemp(join(tmpdir(), 'chatelaine-bench-'))
  const cluster = process.env.TEST_DATABASE_URL
  const database = cluster === undefined || 'DATABASE_URL' in settings ? null : await emptyPostgres(cluster)
  const child = fork(new URL('program.ts', import.meta.url).pathname, {
    execArgv: ['--disable-warning=ExperimentalWarning', '--expose-gc', ...flags],
    env: {
      ...process.env,
      ...{
        NODE_ENV: 'development',
        PORT: '0',
        DATA_DIR: dataDir,
        RPC_URL: rpcUrl,
        RATE_LIMITS: 'off',
        LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
        REQUEST_LOG: 'off',
      },
      ...(database === null ? {} : { DATABASE_URL: database.url }),
      ...settings,
    },
  })
  const { origin, signerPid } = await answerOf<{ origin: string; signerPid: number }>(
    child,
    (message) => 'origin' in message,
  )
  let id = 0
  const ask = <T>(question: object): Promise<T> => {
    const mine = ++id
    child.send({ id: mine, ...question })
    return answerOf<T & { id: number }>(child, (message) => message.id === mine)
  }
  const { pid, end } = handleOf(child)
  return {
    url: origin,
    pid,
    signerPid,
    databaseUrl: database?.url ?? null,
    replicaSettings: {
      ...(database === null ? {} : { DATABASE_URL: database.url }),
      PUBLIC_ORIGIN: origin,
      AUTH_KEYS_FILE: join(dataDir, 'auth-keys.json'),
    },
    counts: async () => (await ask<{ counts: Counts }>({ counts: true })).counts,
    people: async (users, application, weight) => {
      const more = {
        ...(application === undefined ? {} : { application }),
        ...(weight === undefined ? {} : { weight }),
      }
      return (await ask<{ tokens: Person[] }>({ users, ...more })).tokens
    },
    feed: (clientId, users) => ask({ feed: clientId, users }),
    memory: async () => (await ask<{ memory: NodeJS.MemoryUsage }>({ memory: true })).memory,
    loopDelayMs: async () => (await ask<{ delayMs: number }>({ loop: true })).delayMs,
    sponsor: async (name) => (await ask<{ address: Hex }>({ sponsor: name })).address,
    settled: async () => {
      while ((await ask<{ open: number }>({ open: true })).open > 0) await sleep(100)
    },
    profile: async (work) => {
      await ask({ profile: 'start' })
      await work()
      return (await ask<{ profile: Profiler.Profile }>({ profile: 'stop' })).profile
    },
    end: async () => {
      await end()
      await database?.drop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** User and system time of a process and all its threads, milliseconds; proc(5), fields 14 and 15, in ticks of 10 ms. Linux only. */
export function cpuMillis(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Resident memory of a process, bytes; proc(5), VmRSS. Linux only; 0 where it has ended. */
export function residentBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1_024
  } catch {
    return 0
  }
}

function handleOf(child: ChildProcess): { pid: number; end(): Promise<void> } {
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const isOver = () => child.exitCode !== null || child.signalCode !== null
  const end = async () => {
    if (!isOver()) child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
    if (!isOver()) await ended
    clearTimeout(late)
  }
  return { pid: child.pid!, end }
}

async function firstMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.once('exit', (code) => reject(new Error(`${child.spawnfile} ended with ${code}`)))
    child.once('error', reject)
    child.stdout!.on('data', function listen(chunk) {
      said += chunk
      const found = pattern.exec(said)
      if (found === null) return
      child.stdout!.off('data', listen).resume()
      resolve(found[1]!)
    })
  })
}

async function answerOf<T>(child: ChildProcess, isIt: (message: Record<string, unknown>) => boolean): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (code: number | null) => reject(new Error(`the program ended with ${code}`))
    child.once('exit', gone)
    child.on('message', function listen(message) {
      if (!isIt(message as Record<string, unknown>)) return
      child.off('message', listen)
      child.off('exit', gone)
      resolve(message as T)
    })
  })
}
