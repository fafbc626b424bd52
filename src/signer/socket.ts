import { chmodSync, existsSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { once } from 'node:events'
import type { Log } from '../telemetry.ts'
import { Refusal, StartError } from './refusal.ts'
import { encodeFrame, frameReader, type AnswerFrame, type Verb } from './wire.ts'

/** One function per verb; what it throws as Refusal is told, everything else is a bug and told as such. */
export type Handlers = { [V in Verb]: (request: unknown) => unknown }

/** Requests of one connection that may be under way; above it we stop reading until some are answered. */
const MOST_UNDER_WAY = 1_024
/** sun_path of Linux is 108 bytes with its NUL; a longer one is cut off silently. */
const LONGEST_PATH = 107

/**
 * Listens on a Unix socket that only this user of the machine may open: mode 0600, and never wider before that, by
 * the umask of the process.
 * @throws StartError  when the path cannot be used, or something else listens there
 */
export async function listen({ path, handlers, log }: { path: string; handlers: Handlers; log: Log }) {
  await clearPath(path)
  const open = new Map<Socket, { finish: () => void }>()
  const server = createServer((socket) => {
    open.set(socket, serve(socket, handlers, log))
    socket.once('close', () => open.delete(socket))
  })
  server.listen(path)
  await once(server, 'listening').catch((cause: unknown) => {
    throw new StartError('The signer cannot listen at SIGNER_SOCKET.', cause)
  })
  chmodSync(path, 0o600)
  return {
    /** Takes no more requests; what is under way is answered before the connections end. */
    async close(): Promise<void> {
      const closed = once(server, 'close')
      server.close()
      for (const { finish } of open.values()) finish()
      await closed
    },
  }
}

function serve(socket: Socket, handlers: Handlers, log: Log): { finish: () => void } {
  let underWay = 0
  let isEnding = false
  const read = frameReader((message) => {
    const request = readEnvelope(message)
    if (request === null) throw new Error('not a request')
    underWay += 1
    if (underWay >= MOST_UNDER_WAY) socket.pause()
    void answer(request, handlers, log).then(send)
  })
  socket.on('data', (chunk) => {
    if (isEnding) return
    try {
      read(chunk)
    } catch {
      // Where the next frame starts is not known any more.
      log.warn('connection_refused', { reason: 'malformed frame' })
      socket.destroy()
    }
  })
  // A peer that went away is no fault of ours; its requests run on, and their records are in the ledger.
  socket.on('error', () => socket.destroy())
  socket.on('drain', resumeWhenReady)
  return {
    finish() {
      isEnding = true
      endWhenIdle()
    },
  }

  function send(frame: AnswerFrame): void {
    underWay -= 1
    if (socket.writable) {
      // The answers of one group leave in one system call.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      socket.write(encodeAnswer(frame, log))
    }
    // A peer that asks and does not read would have us keep its answers.
    if (socket.writableNeedDrain) socket.pause()
    else resumeWhenReady()
    endWhenIdle()
  }

  function resumeWhenReady(): void {
    if (socket.isPaused() && !socket.writableNeedDrain && underWay < MOST_UNDER_WAY / 2) socket.resume()
  }

  function endWhenIdle(): void {
    if (isEnding && underWay === 0) socket.end()
  }
}

/** Refusals that a sound server never meets: each is a bug, an attack, or a store that was tampered with. */
const SUSPICIOUS = new Set<string>(['nonce_conflict', 'intent_conflict', 'nonce_gap', 'key_damaged'])

function encodeAnswer(frame: AnswerFrame, log: Log): Buffer {
  try {
    return encodeFrame(frame)
  } catch (error) {
    log.error('answer_failed', {}, error)
    return encodeFrame({ id: frame.id, error: { code: 'internal_error', detail: 'The signer failed.' } })
  }
}

type Request = { id: number; verb: string; request: unknown }

function readEnvelope(message: unknown): Request | null {
  if (typeof message !== 'object' || message === null) return null
  const { id, verb, request } = message as Partial<Request>
  if (!Number.isSafeInteger(id) || typeof verb !== 'string') return null
  return { id: id!, verb, request }
}

async function answer({ id, verb, request }: Request, handlers: Handlers, log: Log): Promise<AnswerFrame> {
  try {
    if (!Object.hasOwn(handlers, verb)) throw new Refusal('bad_request', 'The signer has no such verb.')
    return { id, answer: await handlers[verb as Verb](request) }
  } catch (error) {
    if (error instanceof Refusal) {
      log[SUSPICIOUS.has(error.code) ? 'warn' : 'info']('refused', { verb, code: error.code })
      return { id, error: { code: error.code, detail: error.message } }
    }
    log.error('verb_failed', { verb }, error)
    return { id, error: { code: 'internal_error', detail: 'The signer failed.' } }
  }
}

/** A signer that was killed leaves its socket behind; one that lives answers at it. */
async function clearPath(path: string): Promise<void> {
  if (Buffer.byteLength(path) > LONGEST_PATH) {
    throw new StartError(`SIGNER_SOCKET is longer than ${LONGEST_PATH} bytes, the limit of Unix sockets.`)
  }
  mkdirSync(dirname(path), { recursive: true })
  if (!existsSync(path)) return
  if (!lstatSync(path).isSocket()) throw new StartError('There is a file at SIGNER_SOCKET that is no socket.')
  if (await isAnswered(path)) throw new StartError('Another program listens at SIGNER_SOCKET.')
  rmSync(path, { force: true })
}

async function isAnswered(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
