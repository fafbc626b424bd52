import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from '../kit/ports.ts'

/** A PostgreSQL cluster of one's own, to be treated badly; durable as PostgreSQL is by default. */
export type Cluster = {
  url: string
  /** an immediate shutdown, as SIGQUIT or a crash of the machine: nothing is flushed, the next start recovers; then that long nothing */
  crash(awayMs: number): Promise<void>
  stop(): Promise<void>
}

/** @returns null where PostgreSQL's programs are not on PATH */
export async function startCluster(): Promise<Cluster | null> {
  if (!onPath('initdb') || !onPath('postgres')) return null
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-cluster-'))
  // PostgreSQL refuses to run as root: then it runs as the user that its package made.
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid)
  const data = join(folder, 'data')
  execFileSync('initdb', ['-D', data, '-U', 'chatelaine', '-A', 'trust', '--no-instructions'], {
    ...owner,
    cwd: folder,
    stdio: 'ignore',
  })
  const port = await freePort()
  let child: ChildProcess

  const start = async () => {
    child = spawn('postgres', ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder], {
      ...owner,
      cwd: folder,
      stdio: 'ignore',
    })
    while (child.exitCode === null && !(await accepts(port))) await pause(50)
  }
  const end = async (signal: NodeJS.Signals) => {
    const gone = once(child, 'close')
    child.kill(signal)
    await gone
  }
  await start()
  process.once('exit', () => child.kill('SIGQUIT'))
  return {
    url: `postgres://chatelaine@127.0.0.1:${port}/postgres`,
    crash: async (awayMs) => {
      await end('SIGQUIT')
      await pause(awayMs)
      await start()
    },
    stop: async () => {
      await end('SIGQUIT')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const onPath = (program: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)))

const idOf = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}
