import { chmodSync, existsSync, lstatSync, mkdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { once } from 'node:events'
import type { Logger } from '../log.ts'
import { Refusal, StartError } from './refusal.ts'
import { encodeFrame, frameReader, MAX_FRAME_BYTES } from '../signer-wire/frames.ts'
import { type AnswerFrame, type Verb } from '../signer-wire/wire.ts'
import { systemClock } from '../clock.ts'

/** One function per verb; what it throws as Refusal is returned, everything else is a bug and returned as such. */
export type Handlers = { [V in Verb]: (request: unknown) => unknown }
/** What its operator asks, on a socket of their own. */
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

/** Requests of one connection that may be under way; above it we stop reading until some are answered. */
const MAX_UNDER_WAY = 1_024
/**
 * Bytes that one connection may have us hold for its requests under way: 70 bytes of `recall` ask for an answer of
 * half a megabyte, and without this bound 10,000 of them from a peer that does not read took 850 MB.
 */
const MAX_BYTES_UNDER_WAY = 8_388_608
/** A server has one; the rest is for replicas, and for those that hang. */
const MAX_CONNECTIONS = 64
/** sun_path of Linux is 108 bytes with its NUL; a longer one is cut off silently. */
export const MAX_SOCKET_PATH = 107

/** The socket of the signer's own user, where SIGNER_ADMIN_SOCKET names no other. */
export const adminSocketIn = (folder: string): string => join(folder, 'admin.sock')

/**
 * Listens on a Unix socket that only this user of the machine may open, or its group too: never wider than `mode`,
 * not even for a moment, by the umask of the process.
 * @param mode  0o600 or 0o660
 * @throws StartError  when the path cannot be used, or something else listens there
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
  /** where the path is set, for what is said when it cannot be used */
  setting?: string
  mode: number
  handlers: Served
  log: Logger
  /** the newest signed head; empty: none */
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
    /** Takes no more requests; what is under way is answered before the connections end. */
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
  /** Why a greeting was refused: nothing is done for a server that speaks another wire, or knows another ledger than this one. */
  let refused: Refusal | null = null
  let underWay = 0
  let bytesUnderWay = 0
  let isEnding = false
  /** what one chunk held beyond the bounds */
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
      // Where the next frame starts is not known any more.
      log.warn('connection_refused', { reason: 'malformed frame' })
      socket.destroy()
      return
    }
    work()
  })
  // A peer that went away is no fault of ours; its requests run on, and their records are in the ledger.
  socket.on('error', () => socket.destroy())
  socket.on('drain', work)
  return {
    finish() {
      isEnding = true
      endWhenIdle()
    },
  }

  // Of the same turn: what was sent right behind the greeting is refused, too.
  function guarded(verb: string, handle: Served[string]): Served[string] {
    if (verb !== 'greeting') {
      return (request) => {
        // Another ledger proves that it is one.
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

  // A peer that asks and does not read would have us keep its answers.
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
      // The answers of one group leave in one system call.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      const newest = head()
      // Not with a refusal, whose reader may not believe what comes with it.
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

/** Refusals that a sound server never meets: each is a bug, an attack, or a store that was tampered with. */
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
  /** milliseconds since 1970: nobody waits for the answer after that; null: anyone who asks does not say */
  expiresAt: number | null
  /** what it may have us hold: about as much as it brings, but for verbs of large answers a whole frame */
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
    // It stood in the socket for too long: the server has answered its client, and may have begun otherwise.
    if (expiresAt !== null && systemClock.wall() > expiresAt)
      throw new Refusal('overloaded', 'The request reached the signer too late. Nothing was signed. Retry.')
    return { id, answer: await handlers[verb]!(request) }
  } catch (error) {
    if (error instanceof Refusal) {
      // Any text may stand for a verb, a token too: only what is one goes into the log.
      const known = Object.hasOwn(handlers, verb) ? verb : 'unknown'
      log[SUSPICIOUS.has(error.code) ? 'warn' : 'info']('refused', { verb: known, code: error.code })
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

/** The socket's folder, if it is not there yet: anyone who may open the socket has to reach it. */
function makeFolder(folder: string, mode: number): void {
  const isMade = mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined
  if (isMade && (mode & 0o060) !== 0) chmodSync(folder, 0o750)
}

/** A signer that was killed leaves its socket behind; one that lives answers at it. */
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
    // Only a refusal says that nobody is there: one whose queue is full, or that is not ours to ask, lives.
    const { code } = error as NodeJS.ErrnoException
    return code !== 'ECONNREFUSED' && code !== 'ENOENT'
  } finally {
    socket.destroy()
  }
}
