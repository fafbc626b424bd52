import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { until } from '../kit/until.ts'
import { startCable, type Cable } from './cable.ts'
import { freePort } from '../kit/ports.ts'

/** One PostgreSQL server of a pair. */
export type Standing = {
  port: number
  url: string
  start(settings?: Record<string, string>): Promise<void>
  /** SIGKILL, of its children too: as when the machine loses its power */
  kill(): Promise<void>
  /** asks its database of the service directly, wherever the door leads */
  ask<Row extends object>(sql: string, values?: unknown[]): Promise<Row[]>
  /** asks its database `postgres` */
  admin<Row extends object>(sql: string): Promise<Row[]>
  promote(): Promise<void>
  /** throws its data away; it is killed before */
  discard(): Promise<void>
}

/** A PostgreSQL primary and the standby that streams from it, over a link that can be cut. */
export type Pair = {
  readonly primary: Standing
  readonly standby: Standing
  link: Cable
  /** where an operator's HAProxy would stand: leads to whom it is told */
  door: Cable
  /** connection string of the database behind the door */
  doorUrl: string
  /** the same as a list of both servers */
  listUrl: string
  /** with `true` a commit is answered after the standby has it */
  synchronous(isSo: boolean): Promise<void>
  /** dumps the database to a file */
  dump(): Promise<void>
  /** replaces the database behind the door by the dump; nobody may be connected for long */
  restore(): Promise<void>
  /** after a promotion: the old primary is thrown away, the promoted one is the primary and gets a standby of its own */
  renew(): Promise<void>
  stop(): Promise<void>
}

const DATABASE = 'wallets'
const USER = 'chatelaine'

const PROGRAMS = ['initdb', 'postgres', 'pg_basebackup', 'pg_dump', 'pg_restore', 'createdb', 'dropdb']

/** @returns the folder that holds PostgreSQL's programs, on PATH or where Debian's packages put them; null: none holds all */
export function findPrograms(): string | null {
  const packaged = globSync('/usr/lib/postgresql/*/bin').toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...packaged]
  return folders.find((folder) => PROGRAMS.every((program) => existsSync(join(folder, program)))) ?? null
}

/** @param programs  folder of PostgreSQL's programs */
export async function startPair(programs: string): Promise<Pair> {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-pair-'))
  // PostgreSQL refuses to run as root: then it runs as the user that its package made.
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid)
  // Never synchronously: the cables that these go through are in this process.
  const run = (program: string, ...args: string[]) =>
    promisify(execFile)(join(programs, program), args, { ...owner, cwd: folder, timeout: 300_000 })
  const closers: (() => unknown)[] = []
  const stop = async () => {
    for (const close of closers.toReversed()) await close()
    rmSync(folder, { recursive: true, force: true })
  }
  let made = 0
  const make = async (): Promise<Standing & { data: string }> => {
    const data = join(folder, `server-${++made}`)
    const server = standing({ programs, data, folder, port: await freePort(), owner })
    closers.push(() => server.kill())
    return { ...server, data }
  }
  try {
    let primary = await make()
    await run('initdb', '-D', primary.data, '-U', USER, '-A', 'trust', '--no-instructions')
    await primary.start()
    await primary.admin(`create database ${DATABASE}`)
    const link = await startCable(primary.port)
    closers.push(() => link.close())
    /** A standby of the primary, copied from it directly; what it follows comes over the link. */
    const follow = async () => {
      const server = await make()
      const from = ['-h', '127.0.0.1', '-p', String(primary.port), '-U', USER]
      await run('pg_basebackup', ...from, '-D', server.data, '-R', '-X', 'stream', '-c', 'fast')
      await server.start({ primary_conninfo: `host=127.0.0.1 port=${link.port} user=${USER}` })
      await until('the standby streams', async () => {
        const rows = await primary.admin(`select 1 from pg_stat_replication where state = 'streaming'`)
        return rows.length === 1
      })
      return server
    }
    let standby = await follow()
    const door = await startCable(primary.port)
    closers.push(() => door.close())
    const urlOf = (hosts: string) => `postgres://${USER}@${hosts}/${DATABASE}`
    const file = join(folder, 'dump')
    const behindDoor = ['-h', '127.0.0.1', '-p', String(door.port), '-U', USER]
    return {
      ...{ link, door, stop },
      get primary() {
        return primary
      },
      get standby() {
        return standby
      },
      doorUrl: urlOf(`127.0.0.1:${door.port}`),
      listUrl: urlOf(`127.0.0.1:${primary.port},127.0.0.1:${standby.port}`),
      async synchronous(isSo) {
        await primary.admin(`alter system set synchronous_standby_names = '${isSo ? '*' : ''}'`)
        await primary.admin('select pg_reload_conf()')
        const wanted = isSo ? 'sync' : 'async'
        await until(`the standby is ${wanted}`, async () => {
          const [row] = await primary.admin<{ sync_state: string }>('select sync_state from pg_stat_replication')
          return row?.sync_state === wanted
        })
      },
      async renew() {
        await primary.discard()
        primary = standby
        link.lead(primary.port)
        standby = await follow()
      },
      dump: async () => void (await run('pg_dump', ...behindDoor, '-Fc', '-f', file, DATABASE)),
      async restore() {
        await run('dropdb', ...behindDoor, '--force', DATABASE)
        await run('createdb', ...behindDoor, DATABASE)
        await run('pg_restore', ...behindDoor, '--exit-on-error', '--single-transaction', '-d', DATABASE, file)
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function standing({
  programs,
  data,
  folder,
  port,
  owner,
}: {
  programs: string
  data: string
  folder: string
  port: number
  owner: { uid?: number; gid?: number }
}): Standing {
  let child: ChildProcess | null = null
  const end = () => kill()
  const urlOf = (database: string) => `postgres://${USER}@127.0.0.1:${port}/${database}`

  function kill(): void {
    if (child?.pid === undefined) return
    // Each child leads a group of its own: they are found by their parent.
    const children = readChildren(child.pid)
    child.kill('SIGKILL')
    for (const pid of children) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It saw its parent die and was quicker.
      }
    }
  }

  async function ask<Row extends object>(database: string, sql: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: urlOf(database), connectionTimeoutMillis: 5_000 })
    client.on('error', () => {})
    try {
      await client.connect()
      return (await client.query<Row>(sql, values)).rows
    } finally {
      await client.end().catch(() => {})
    }
  }

  return {
    port,
    url: urlOf(DATABASE),
    ask: (sql, values) => ask(DATABASE, sql, values),
    admin: (sql) => ask('postgres', sql),
    async start(settings = {}) {
      const more = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
      const args = ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder, ...more]
      child = spawn(join(programs, 'postgres'), args, { ...owner, cwd: folder, stdio: 'ignore' })
      process.once('exit', end)
      await until('the server answers', async () => {
        if (child?.exitCode !== null) throw new Error('the server ended')
        return ask('postgres', 'select 1').then(
          () => true,
          () => false,
        )
      })
    },
    async kill() {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'close')
      kill()
      await gone
      process.off('exit', end)
    },
    async promote() {
      await ask('postgres', 'select pg_promote(true, 30)')
    },
    discard: () => rm(data, { recursive: true, force: true }),
  }
}

function readChildren(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    return text.split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

const idOf = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
