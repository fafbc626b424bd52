import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from './kit/ports.ts'

/** @returns the program, also where Debian's package puts it, which is not on everybody's PATH; null: there is none */
export function findPgBouncer(): string | null {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  return folders.map((folder) => join(folder, 'pgbouncer')).find((file) => existsSync(file)) ?? null
}

/**
 * PgBouncer before a cluster, giving each transaction another connection of few.
 * @param cluster  connection string of PostgreSQL
 * @returns        the same connection string through it
 */
export async function startPgBouncer(
  program: string,
  cluster: string,
  { poolSize = 2 }: { poolSize?: number } = {},
): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-pgbouncer-'))
  const at = new URL(cluster)
  const port = await freePort()
  const settings = join(folder, 'pgbouncer.ini')
  writeFileSync(
    settings,
    `[databases]
* = host=${at.hostname} port=${at.port} user=${at.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 500
server_idle_timeout = 10
`,
  )
  // PgBouncer refuses to run as root, as PostgreSQL does.
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  const owner = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  if (owner.uid !== undefined) for (const place of [folder, settings]) chownSync(place, owner.uid, owner.gid)
  const child = spawn(program, [settings], { ...owner, cwd: folder, stdio: 'ignore' })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  while (child.exitCode === null && !(await accepts(port))) await pause(20)
  if (child.exitCode !== null) throw new Error(`PgBouncer ended with ${child.exitCode}`)
  at.port = String(port)
  at.hostname = '127.0.0.1'
  return {
    url: at.href,
    async stop() {
      process.off('exit', end)
      const gone = once(child, 'close')
      end()
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

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
