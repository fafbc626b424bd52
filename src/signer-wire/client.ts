/**
 * signer-wire: the verbs of the signer, as the server calls them, and their wire format.
 * Owns: the shapes of requests and answers, their frames, and the table of the callers of each verb (`wire.ts`).
 * Does not own: the work of a verb (`signer/verbs/pipeline.ts`), when the server calls it.
 */

import { connect, type Socket } from 'node:net'
import { AppError, isErrorCode } from '../errors.ts'
import { isHeadOf, readVerifierKey } from './verifier.ts'
import { encodeFrame, FrameError, frameReader } from './frames.ts'
import {
  readSignedHead,
  VERBS,
  WIRE_VERSION,
  type AnswerFrame,
  type RefusalFacts,
  type Verb,
  type Verbs,
} from './wire.ts'
import { systemClock, type Timer } from '../clock.ts'

/** The verbs of the wire as functions. Each throws AppError or SignerRefused. */
type Calls = { [V in Exclude<Verb, 'greeting' | 'revocations'>]: CallSigner<V> }

/** The signer as the server sees it. */
export type Signer = Calls & {
  /**
   * the verifier key of the signer’s identity (C2SP signed-note): the pinned one, else the key of a signer that continues the
   * newest known head
   */
  identity: () => Promise<string>
  /**
   * Sends the parts of a revocation list now, and first on every later connection, because a restarted signer has none. Throws like
   * the calls.
   */
  bringRevocations: (parts: string[]) => Promise<void>
  /** the newest signed head of the ledger that this process knows; null: none yet */
  head: () => string | null
  /** remembers a stored head if no head is known; each connection shows it first, which detects a signer with an older ledger */
  rememberHead: (head: string) => void
  /** ends the connection; open calls fail with signer_unavailable */
  close: () => void
}

type CallSigner<V extends Verb> =
  Verbs[V]['request'] extends Record<string, never>
    ? () => Promise<Verbs[V]['answer']>
    : (request: Verbs[V]['request']) => Promise<Verbs[V]['answer']>

/** A refusal that no client can cause: a bug of the server, or a ledger that is ahead of the server's database. */
export class SignerRefused extends Error {
  /** a SignerRefusal code, as received */
  readonly code: string
  readonly facts: KnownFacts
  constructor(code: string, detail: string, facts: KnownFacts = {}) {
    super(detail)
    this.name = 'SignerRefused'
    this.code = code
    this.facts = facts
  }
}

/** RefusalFacts as received, with codes as text. */
export type KnownFacts = Omit<RefusalFacts, 'because'> & { because?: string }

/** Returns the facts of a signer's refusal; {} for any other error. */
export function factsOf(error: unknown): KnownFacts {
  const refused = error instanceof AppError ? error.cause : error
  return refused instanceof SignerRefused ? refused.facts : {}
}

/** Maximum bytes buffered for a signer that does not read; above it, calls fail at once instead of timing out. */
const MAX_UNSENT_BYTES = 16_777_216

type PendingAnswer = { resolve: (answer: unknown) => void; reject: (error: Error) => void; timer: Timer }

type Options = {
  path: string
  timeoutMs?: number
  /** sends a new revocation list; called if the signer’s is too old, which a machine that slept finds at its first request */
  renewRevocations?: () => Promise<void>
  /** verifier key of the only trusted signer; undefined: any signer is trusted */
  verifierKey?: string | undefined
}

type SignerConnection = {
  socket: Socket
  waiting: Map<number, PendingAnswer>
  /** true once the signer has shown a head signed by the pinned key */
  isKnown: boolean
}

/**
 * Creates a client that connects at the first call, and again at the first call after a lost connection. Calls share one
 * connection, and answers may arrive in any order.
 *
 * signer_unavailable means that the result is unknown: the signer may have signed. Repeating the request returns the stored bytes.
 * @param timeoutMs  maximum duration of one call, milliseconds
 */
export function connectSigner({ path, timeoutMs = 5_000, renewRevocations, verifierKey }: Options): Signer {
  const pinned = verifierKey === undefined ? null : readVerifierKey(verifierKey)
  let connection: SignerConnection | null = null
  let greeting: string[] = []
  let head: string | null = null
  let lastId = 0
  let isClosed = false

  const { greeting: _, revocations: __, ...asked } = VERBS
  const calls = Object.entries(asked).map(([verb, { renews = false }]) => [
    verb,
    (request: never = {} as never) => (renews ? callRenewing : call)(verb as Verb, request),
  ])
  return {
    ...(Object.fromEntries(calls) as Calls),
    // `SIGNER_KEY` needs no confirmation. In particular, do not fall back to the database's copy of the key while the signer is
    // unreachable.
    identity: async () => verifierKey ?? (await call('greeting', { wire: WIRE_VERSION, head })).key,
    async bringRevocations(parts) {
      greeting = parts
      // If this opens the connection, the list was already sent with the greeting; sending it twice is harmless.
      await Promise.all(parts.map((list) => call('revocations', { list })))
    },
    head: () => head,
    rememberHead(kept) {
      head ??= kept
    },
    close() {
      isClosed = true
      if (connection !== null)
        lose(
          connection,
          unavailable(
            'The connection to the signer was closed. A write may have been signed. Retry with the same idempotency key.',
          ),
        )
    },
  }

  /** A refused request was certainly not signed, so it may be repeated. */
  function callRenewing<V extends Verb>(verb: V, request: Verbs[V]['request']): Promise<Verbs[V]['answer']> {
    const answer = call(verb, request)
    if (renewRevocations === undefined) return answer
    return answer.catch(async (error: unknown) => {
      if (!(error instanceof AppError) || error.code !== 'revocations_stale') throw error
      await renewRevocations().catch(() => {
        throw error
      })
      return call(verb, request)
    })
  }

  function call<V extends Verb>(verb: V, request: Verbs[V]['request']): Promise<Verbs[V]['answer']> {
    return new Promise((resolve, reject) => {
      if (isClosed)
        throw unavailable(
          'The connection to the signer was closed. A write may have been signed. Retry with the same idempotency key.',
        )
      const id = (lastId += 1)
      // After this time nobody waits for the answer, so the signer must not sign.
      const expiresAt = systemClock.wall() + timeoutMs
      const frame = encode({ id, verb, request, expiresAt })
      const { socket, waiting } = (connection ??= open())
      if (socket.writableLength > MAX_UNSENT_BYTES)
        throw unavailable(
          'The signer does not read its requests. This request was not sent to the signer. Retry with the same idempotency key.',
        )
      const timer = systemClock.after(timeoutMs, () => {
        waiting.delete(id)
        reject(
          unavailable(
            'The signer did not respond in time. A write may have been signed. Retry with the same idempotency key.',
          ),
        )
      })
      waiting.set(id, { resolve: resolve as PendingAnswer['resolve'], reject, timer })
      // Requests of one turn of the event loop leave in one system call.
      if (socket.writableCorked === 0) {
        socket.cork()
        process.nextTick(() => socket.uncork())
      }
      socket.write(frame)
    })
  }

  function open(): SignerConnection {
    const opened: SignerConnection = { socket: connect(path), waiting: new Map(), isKnown: verifierKey === undefined }
    const read = frameReader((message) => take(opened, message as AnswerFrame))
    opened.socket.on('data', (chunk) => {
      try {
        read(chunk)
      } catch (cause) {
        lose(
          opened,
          unavailable(
            'The response of the signer cannot be read. A write may have been signed. Retry with the same idempotency key.',
            cause,
          ),
        )
      }
    })
    opened.socket.on('error', (cause) =>
      lose(
        opened,
        unavailable(
          'The signer cannot be reached. A write may have been signed. Retry with the same idempotency key.',
          cause,
        ),
      ),
    )
    opened.socket.on('close', () =>
      lose(
        opened,
        unavailable(
          'The connection to the signer was lost. A write may have been signed. Retry with the same idempotency key.',
        ),
      ),
    )
    // The greeting comes first. The signer rejects all later requests if it uses another wire version, or if its ledger does not
    // continue this head.
    opened.socket.write(encode({ id: (lastId += 1), verb: 'greeting', request: { wire: WIRE_VERSION, head } }))
    // Nobody awaits these answers; the process that sent the list learns of an error when it sends the next one.
    for (const list of greeting)
      opened.socket.write(encode({ id: (lastId += 1), verb: 'revocations', request: { list } }))
    return opened
  }

  function take(from: SignerConnection, frame: AnswerFrame): void {
    // Trust nothing from another signer, least of all an address. A refusal has no effect.
    if (!from.isKnown && 'answer' in frame) {
      const shown = readSignedHead(frame.head ?? '')
      if (shown === null || pinned === null || !isHeadOf(pinned, shown)) return lose(from, foreign())
      from.isKnown = true
    }
    // This signer was shown the previous head and did not refuse. So its head succeeds that one, even if it is smaller after an
    // accepted restore.
    if (typeof frame.head === 'string' && 'answer' in frame) head = frame.head
    settle(from, frame)
  }

  function lose(lost: SignerConnection, error: Error): void {
    if (connection === lost) connection = null
    lost.socket.destroy()
    for (const { reject, timer } of lost.waiting.values()) {
      timer.cancel()
      reject(error)
    }
    lost.waiting.clear()
  }
}

const foreign = (): SignerRefused =>
  new SignerRefused('ledger_damaged', 'The key of the signer is not SIGNER_KEY, so its responses are rejected.')

function settle({ waiting }: SignerConnection, frame: AnswerFrame): void {
  const call = waiting.get(frame.id)
  // The answer arrived after its time-out; the ledger has its signature.
  if (call === undefined) return
  waiting.delete(frame.id)
  call.timer.cancel()
  if ('error' in frame) call.reject(toError(frame.error))
  else call.resolve(frame.answer)
}

function toError({ code, detail, ...rest }: { code: string; detail: string } & Record<string, unknown>): Error {
  const refused = new SignerRefused(code, detail, readFacts(rest))
  if (!isErrorCode(code)) return refused
  return new AppError(code, detail, Object.keys(refused.facts).length === 0 ? {} : { cause: refused })
}

/** Reads the facts of a refusal; it drops members of another form. */
function readFacts({ operation, because, rule, resetsAt }: Record<string, unknown>): KnownFacts {
  const isTime = typeof resetsAt === 'string' && !Number.isNaN(Date.parse(resetsAt))
  return {
    ...(typeof operation === 'number' ? { operation } : {}),
    ...(typeof because === 'string' ? { because } : {}),
    ...(typeof rule === 'string' ? { rule } : {}),
    ...(isTime || resetsAt === null ? { resetsAt: resetsAt as string | null } : {}),
  }
}

function encode(frame: { id: number; verb: Verb; request: unknown; expiresAt?: number }): Buffer {
  try {
    return encodeFrame(frame)
  } catch (error) {
    throw error instanceof FrameError ? new SignerRefused('bad_request', error.message) : error
  }
}

const unavailable = (detail: string, cause?: unknown): AppError =>
  new AppError('signer_unavailable', detail, cause === undefined ? {} : { cause })
