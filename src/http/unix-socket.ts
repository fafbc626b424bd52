import { chmodSync, existsSync, lstatSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { once } from 'node:events'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { openEnding } from './ending.ts'

/** marks connections that another program of this installation opened */
const OURS = Symbol('opened by another program of this installation')

/** Returns whether a request came over our Unix socket, so from another program of this installation. */
export const isFromOurs = ({ raw }: Pick<FastifyRequest, 'raw'>): boolean => OURS in raw.socket

/**
 * Serves the same routes on a Unix socket, for another program of this installation whose OS user is in the socket's
 * group.
 * @param setting  setting of the path, for error messages
 * @throws Error naming the setting
 */
export async function listenAtSocket(
  server: FastifyInstance,
  { path, setting, clock }: { path: string; setting: string; clock: Clock },
): Promise<{ close(): Promise<void> }> {
  await clearPath(path, setting)
  // Requests pass through the main listener, which has the admission control.
  const inner = createServer({ keepAliveTimeout: 72_000 }, (request, response) => {
    // A Unix socket has no client address, and a proxy's claim about one must not count here.
    delete request.headers['x-forwarded-for']
    ending.follow(response)
    server.server.emit('request', request, response)
  })
  const ending = openEnding(inner, clock)
  inner.on('connection', (socket) => Object.assign(socket, { [OURS]: true }))
  // The socket must never be open to other users, not even briefly.
  const umask = process.umask(0o177)
  inner.listen(path)
  await once(inner, 'listening')
    .catch((cause: NodeJS.ErrnoException) => {
      throw new Error(`${setting} cannot be listened on: ${cause.code ?? 'failed'}`, { cause })
    })
    .finally(() => process.umask(umask))
  chmodSync(path, 0o660)
  return {
    async close() {
      const closed = once(inner, 'close')
      ending.begin()
      inner.close()
      await closed
    },
  }
}

/**
 * Removes the socket of a killed program.
 * @throws Error if a program still listens there, or the file is not a socket
 */
async function clearPath(path: string, setting: string): Promise<void> {
  if (!existsSync(path)) return
  if (!lstatSync(path).isSocket()) throw new Error(`the file at ${setting} is not a socket`)
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ECONNREFUSED' || code === 'ENOENT') return rmSync(path, { force: true })
  } finally {
    socket.destroy()
  }
  throw new Error(`another program is listening at ${setting}`)
}
