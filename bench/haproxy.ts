import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Started } from './place.ts'

const BINARY = ['/usr/sbin/haproxy', '/usr/local/sbin/haproxy'].find((path) => existsSync(path))
const PROBLEM = JSON.stringify({ status: 503, code: 'overloaded', title: 'Too much is asked of the service', retryable: true }) // prettier-ignore

/**
 * HAProxy in front of a server, as docs/operate/monitoring.md has it: so many requests in it at a time, 40 ms of waiting for
 * the others, then 503.
 * @throws Error where its package is not installed
 */
export async function startHaproxy(url: string, { maxConnections = 256 } = {}): Promise<Started> {
  if (BINARY === undefined) throw new Error('haproxy is not installed (package haproxy)')
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-haproxy-'))
  const listener = createServer().listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as AddressInfo
  listener.close()
  await once(listener, 'close')
  const refusal = join(folder, '503.http')
  await writeFile(
    refusal,
    `HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nContent-Length: ${PROBLEM.length}\r\n\r\n${PROBLEM}`,
  )
  const file = join(folder, 'haproxy.cfg')
  await writeFile(
    file,
    `global
  maxconn 8000
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout queue 40ms
  http-reuse always
  errorfile 503 ${refusal}
frontend clients
  bind 127.0.0.1:${port}
  default_backend chatelaine
backend chatelaine
  server one ${new URL(url).host.replace('localhost', '127.0.0.1')} maxconn ${maxConnections}
`,
  )
  const child = spawn(BINARY, ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = once(child, 'exit')
  for (;;) {
    const socket = connect(port, '127.0.0.1')
    const [event] = await Promise.race([
      once(socket, 'connect').then(() => ['connect']),
      once(socket, 'error').then(() => ['error']),
    ]).catch(() => ['error'])
    socket.destroy()
    if (event === 'connect') break
    if (child.exitCode !== null) throw new Error(`haproxy ended with ${child.exitCode}`)
    await sleep(50)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid!,
    end: async () => {
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
