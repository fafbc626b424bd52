import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../test/kit/ports.ts'

/** A PostgreSQL cluster, and what its processes have used so far. */
export type Cluster = {
  url: string
  /** milliseconds of CPU, of all its processes; 0 where that cannot be seen */ cpuMillis(): number
  end(): Promise<void>
}

/**
 * The cluster of TEST_DATABASE_URL, else one of our own with PostgreSQL's own settings, thrown away at the end.
 * @returns null where neither is there, or none is wanted (`BENCH_DATABASE=embedded`): the program then runs on the embedded database
 */
export async function startPostgres(): Promise<Cluster | null> {
  if (process.env.BENCH_DATABASE === 'embedded') return null
  const url = process.env.TEST_DATABASE_URL
  if (url !== undefined) return { url, cpuMillis: () => cpuOf(postmasterAt(url)), end: async () => {} }
  const binaries = findBinaries()
  return binaries === null ? null : launch(binaries)
}

/** Of the machine's packages the newest, else those on PATH. */
function findBinaries(): string | null {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).toSorted((a, b) => Number(b) - Number(a)) : []
  const folders = [...versions.map((version) => join(root, version, 'bin')), ...(process.env.PATH ?? '').split(':')]
  return folders.find((folder) => existsSync(join(folder, 'initdb'))) ?? null
}

async function launch(binaries: string): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-postgres-'))
  // PostgreSQL refuses to run as root.
  const user = process.getuid?.() === 0 ? { uid: idOf('postgres'), gid: idOf('postgres') } : {}
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  execFileSync(join(binaries, 'initdb'), ['-D', data, '-U', 'chatelaine', '-A', 'trust'], {
    ...user,
    cwd: folder,
    stdio: 'ignore',
  })
  const port = await freePort()
  const child = spawn(
    join(binaries, 'postgres'),
    ['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-k', folder],
    { ...user, cwd: folder, stdio: 'ignore' },
  )
  const url = `postgres://chatelaine@127.0.0.1:${port}/postgres`
  await untilItAnswers(url, child)
  return {
    url,
    cpuMillis: () => cpuOf(child.pid!),
    end: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGINT')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function idOf(name: string): number {
  return Number(execFileSync('id', ['-u', name], { encoding: 'utf8' }))
}

async function untilItAnswers(url: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const client = new pg.Client({ connectionString: url })
    try {
      await client.connect()
      return await client.end()
    } catch {
      await wait(50)
    }
  }
  throw new Error(`PostgreSQL ended with ${child.exitCode}`)
}

/** Field 14 to 17 of proc(5) in ticks of 10 ms: the postmaster, its children that have ended, and those that live. */
function cpuOf(postmaster: number | null): number {
  if (postmaster === null) return 0
  const fields = statOf(postmaster)
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim().split(' ').map(Number)
  const ticks = [fields[11]!, fields[12]!, fields[13]!, fields[14]!]
  for (const pid of children) ticks.push(...(statOf(pid).slice(11, 13) as [number, number]))
  return ticks.reduce((sum, one) => sum + one, 0) * 10
}

function statOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ').map(Number)
  } catch {
    // It ended in between.
    return Array.from({ length: 20 }, () => 0)
  }
}

/** On this machine, the process that was started with this port on its command line or in its folder. */
function postmasterAt(url: string): number | null {
  const { port } = new URL(url)
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      if (!/\/postgres$/.test(command[0]!)) continue
      const folder = command[command.indexOf('-D') + 1]!
      if (readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n')[3] === port) return Number(pid)
    } catch {
      // Not ours to look at, or gone.
    }
  }
  return null
}
