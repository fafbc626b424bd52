import { chmodSync, existsSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { once } from 'node:events'
import type { Logger } from '../log.ts'
import { Refusal, StartError } from './refusal.ts'
import { encodeFrame, frameReader, MAX_FRAME_BYTES } from '../signer-wire/frames.ts'
import { type AnswerFrame, type Verb } from '../signer-wire/wire.ts'
import { systemClock } from '../clock.ts'

/** One function per verb. A Refusal that it throws is returned to the caller; any other error is a bug and returned as `internal_error`. */
export type Handlers = { [V in Verb]: (request: unknown) => unknown }
/** The verbs of the signer's operator, on a separate socket. */
export const ADMIN_VERBS = [
  'freeze',
  'unfreeze',
  'frozen',
  'rotateKek',
  'rotateDek',
  'rotation',
  'importRecipient',
  'importKeys',
  'exportKeys',
  'grantWithdrawal',
] as const
export type AdminHandlers = { [verb in (typeof ADMIN_VERBS)[number]]: (request: unknown) => unknown }
type Served = Record<string, (request: unknown) => unknown>

/** Maximum concurrent requests of one connection; beyond that, reading pauses until some are answered. */
const MAX_UNDER_WAY = 1_024
/**
 * Maximum bytes held for one connection's concurrent requests. A `recall` request of 70 bytes has an answer of half a megabyte.
 * Without this bound, 10,000 of them from a peer that does not read used 850 MB.
 */
const MAX_BYTES_UNDER_WAY = 8_388_608
/** A server needs one; the rest is for replicas and for connections that hang. */
const MAX_CONNECTIONS = 64
/** sun_path of Linux is 108 bytes including its NUL; a longer path is silently truncated. */
export const MAX_SOCKET_PATH = 107

/** Returns the default path of the admin socket, for the signer's own OS user. */
export const adminSocketIn = (folder: string): string => join(folder, 'admin.sock')

/**
 * Listens on a Unix socket that only this OS user, or also its group, may open. The process umask ensures that it is never wider
 * than `mode`, even for a moment.
 * @param mode  0o600 or 0o660
 * @throws StartError  if the path cannot be used, or another program listens there
 */
export async function listen({
  path,
  setting = 'SIGNER_SOCKET',
  mode,
  handlers,
  log,
  head = () => '',
}: {
  path: string
  /** the setting of the path, for error messages */
  setting?: string
  mode: number
  handlers: Served
  log: Logger
  /** returns the newest signed head; empty: none */
  head?: () => string
}) {
  makeFolder(dirname(path), mode)
  await clearPath(path, setting)
  const open = new Map<Socket, { finish: () => void }>()
  const server = createServer((socket) => {
    open.set(socket, serve(socket, { handlers, log, head }))
    socket.once('close', () => open.delete(socket))
  })
  server.maxConnections = MAX_CONNECTIONS
  server.listen(path)
  await once(server, 'listening').catch((cause: unknown) => {
    throw new StartError(`The signer cannot listen at ${setting}.`, cause)
  })
  chmodSync(path, mode)
  return {
    /** stops accepting requests; requests in progress are answered before the connections end */
    async close(): Promise<void> {
      const closed = once(server, 'close')
      server.close()
      for (const { finish } of open.values()) finish()
      await closed
    },
  }
}

function serve(
  socket: Socket,
  { handlers, log, head }: { handlers: Served; log: Logger; head: () => string },
): { finish: () => void } {
  let told = ''
  /** why a greeting was refused; requests of a server with another wire version or another ledger are rejected */
  let refused: Refusal | null = null
  let underWay = 0
  let bytesUnderWay = 0
  let isEnding = false
  /** requests of one chunk beyond the bounds */
  let backlog: SocketRequest[] = []
  const read = frameReader((message, bytes) => {
    const request = readEnvelope(message, bytes)
    if (request === null) throw new Error('not a request')
    backlog.push(request)
  })
  const served: Served = Object.fromEntries(
    Object.entries(handlers).map(([verb, handle]) => [verb, guarded(verb, handle)]),
  )
  socket.on('data', (chunk) => {
    if (isEnding) return
    try {
      read(chunk)
    } catch {
      // The start of the next frame is unknown.
      log.warn('connection_refused', { reason: 'malformed frame' })
      socket.destroy()
      return
    }
    work()
  })
  // A peer that disconnects is not our error. Its requests continue, and their records are in the ledger.
  socket.on('error', () => socket.destroy())
  socket.on('drain', work)
  return {
    finish() {
      isEnding = true
      endWhenIdle()
    },
  }

  // Records the refusal in the same turn, so that requests directly behind the greeting are rejected as well.
  function guarded(verb: string, handle: Served[string]): Served[string] {
    if (verb !== 'greeting') {
      return (request) => {
        // A server whose head was refused may request a proof that the ledgers differ.
        if (refused !== null && (verb !== 'prove' || refused.code !== 'ledger_damaged')) throw refused
        return handle(request)
      }
    }
    return (request) => {
      try {
        const answered = handle(request)
        refused = null
        return answered
      } catch (error) {
        if (error instanceof Refusal && error.code !== 'bad_request') refused = error
        throw error
      }
    }
  }

  function work(): void {
    if (isEnding || socket.destroyed) return
    let begun = 0
    for (; begun < backlog.length && isReady(); begun++) begin(backlog[begun]!)
    if (begun > 0) backlog = backlog.slice(begun)
    if (backlog.length > 0 || !isReady()) socket.pause()
    else if (socket.isPaused()) socket.resume()
  }

  // Answers would pile up in memory for a peer that sends requests and does not read.
  function isReady(): boolean {
    return underWay < MAX_UNDER_WAY && bytesUnderWay < MAX_BYTES_UNDER_WAY && !socket.writableNeedDrain
  }

  function begin(request: SocketRequest): void {
    underWay += 1
    bytesUnderWay += request.bytes
    void answer(request, served, log).then((frame) => {
      underWay -= 1
      bytesUnderWay -= request.bytes
      send(frame)
    })
  }

  function send(frame: AnswerFrame): void {
    if (socket.writable) {
      // Send the answers of one group in one system call.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      const newest = head()
      // A refusal includes no head, because its reader may not trust it.
      const isNews = newest !== '' && newest !== told && 'answer' in frame
      socket.write(encodeAnswer(isNews ? { ...frame, head: newest } : frame, log))
      if (isNews) told = newest
    }
    work()
    endWhenIdle()
  }

  function endWhenIdle(): void {
    if (isEnding && underWay === 0) socket.end()
  }
}

/** Refusals that a correct server never gets: each means a bug, an attack or a modified store. */
const SUSPICIOUS = new Set<string>([
  'nonce_conflict',
  'intent_conflict',
  'sequence_conflict',
  'nonce_gap',
  'key_damaged',
])

function encodeAnswer(frame: AnswerFrame, log: Logger): Buffer {
  try {
    return encodeFrame(frame)
  } catch (error) {
    log.error('answer_failed', {}, error)
    return encodeFrame({
      id: frame.id,
      error: {
        code: 'internal_error',
        detail: 'The signer failed. A write may have been signed. Retry with the same idempotency key.',
      },
    })
  }
}

type SocketRequest = {
  id: number
  verb: string
  request: unknown
  /** milliseconds since 1970 after which nobody waits for the answer; null: the caller does not say */
  expiresAt: number | null
  /** bytes to reserve: the size of the request, or a whole frame for verbs with large answers */
  bytes: number
}

const LARGE_ANSWERS = new Set<string>(['recall', 'wrapped', 'signatures'] satisfies Verb[])

function readEnvelope(message: unknown, bytes: number): SocketRequest | null {
  if (typeof message !== 'object' || message === null) return null
  const { id, verb, request, expiresAt = null } = message as Partial<SocketRequest>
  if (!Number.isSafeInteger(id) || typeof verb !== 'string') return null
  if (expiresAt !== null && !Number.isSafeInteger(expiresAt)) return null
  return { id: id!, verb, request, expiresAt, bytes: LARGE_ANSWERS.has(verb) ? MAX_FRAME_BYTES : bytes }
}

async function answer(
  { id, verb, request, expiresAt }: SocketRequest,
  handlers: Served,
  log: Logger,
): Promise<AnswerFrame> {
  try {
    if (!Object.hasOwn(handlers, verb)) throw new Refusal('bad_request', 'The signer does not have this verb.')
    // The request waited in the socket for too long. The server has already answered its client and may have continued otherwise.
    if (expiresAt !== null && systemClock.wall() > expiresAt)
      throw new Refusal('overloaded', 'The request reached the signer too late. Nothing was signed. Retry.')
    return { id, answer: await handlers[verb]!(request) }
  } catch (error) {
    if (error instanceof Refusal) {
      // Any text may arrive as a verb, even a token, so log known verbs only.
      const known = Object.hasOwn(handlers, verb) ? verb : 'unknown'
      log[SUSPICIOUS.has(error.code) ? 'warn' : 'info']('request_rejected', { verb: known, code: error.code })
      const { code, message: detail, facts } = error
      return { id, error: { code, detail, ...facts } }
    }
    log.error('verb_failed', { verb }, error)
    return {
      id,
      error: {
        code: 'internal_error',
        detail: 'The signer failed. A write may have been signed. Retry with the same idempotency key.',
      },
    }
  }
}

/** Creates the socket's folder if it is missing; users who may open the socket must be able to reach it. */
function makeFolder(folder: string, mode: number): void {
  const isMade = mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined
  if (isMade && (mode & 0o060) !== 0) chmodSync(folder, 0o750)
}

/** Removes the socket of a signer that was killed. @throws StartError  if a program still answers there */
async function clearPath(path: string, setting: string): Promise<void> {
  if (Buffer.byteLength(path) > MAX_SOCKET_PATH) {
    throw new StartError(`${setting} is longer than ${MAX_SOCKET_PATH} bytes, the limit of Unix sockets.`)
  }
  if (!existsSync(path)) return
  if (!lstatSync(path).isSocket()) throw new StartError(`The file at ${setting} is not a socket.`)
  if (await isAnswered(path)) throw new StartError(`Another program is listening at ${setting}.`)
  rmSync(path, { force: true })
}

async function isAnswered(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    // Only a refused connection proves that nobody listens: a full queue or missing permission means that a program runs.
    const { code } = error as NodeJS.ErrnoException
    return code !== 'ECONNREFUSED' && code !== 'ENOENT'
  } finally {
    socket.destroy()
  }
}
