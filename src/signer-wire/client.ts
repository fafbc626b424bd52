/**
 * signer-wire: the verbs of the signer, as the server calls them and as they travel.
 * Owns: the shapes of requests and answers, their frames, and the table of who may ask for which verb (`wire.ts`).
 * Does not own: what a verb does (`signer/verbs/pipeline.ts`), when the server asks.
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

/** The verbs of the wire, each as a call. Each throws AppError or SignerRefused. */
type Calls = { [V in Exclude<Verb, 'greeting' | 'revocations'>]: CallSigner<V> }

/** The signer as the server sees it. */
export type Signer = Calls & {
  /** the signer’s identity, as readers of signed notes take it: the one that is pinned, else of one that has agreed to the newest head that is known */
  identity: () => Promise<string>
  /**
   * Brings the parts of a list of what is revoked, now and first of all on every later connection: a signer that was
   * started again knows none. Throws as the calls do.
   */
  bringRevocations: (parts: string[]) => Promise<void>
  /** the newest signed head of the ledger that this process knows; null: none yet */
  head: () => string | null
  /** One that was kept from before: shown first on every connection, with which a signer that is older is found. */
  rememberHead: (head: string) => void
  /** Ends the connection; calls under way fail with signer_unavailable. */
  close: () => void
}

type CallSigner<V extends Verb> =
  Verbs[V]['request'] extends Record<string, never>
    ? () => Promise<Verbs[V]['answer']>
    : (request: Verbs[V]['request']) => Promise<Verbs[V]['answer']>

/** A refusal that no caller of ours can cause: a bug of the server, or a ledger that is ahead of its database. */
export class SignerRefused extends Error {
  /** one of SignerRefusal, as it came */
  readonly code: string
  readonly facts: KnownFacts
  constructor(code: string, detail: string, facts: KnownFacts = {}) {
    super(detail)
    this.name = 'SignerRefused'
    this.code = code
    this.facts = facts
  }
}

/** As RefusalFacts, whose codes are text here: as they came. */
export type KnownFacts = Omit<RefusalFacts, 'because'> & { because?: string }

/** What the signer’s refusal says besides its code; nothing of any other failure. */
export function factsOf(error: unknown): KnownFacts {
  const refused = error instanceof AppError ? error.cause : error
  return refused instanceof SignerRefused ? refused.facts : {}
}

/** What we keep for a signer that hangs; above it calls fail immediately instead of after their time. */
const MAX_UNSENT_BYTES = 16_777_216

type PendingAnswer = { resolve: (answer: unknown) => void; reject: (error: Error) => void; timer: Timer }

type Options = {
  path: string
  timeoutMs?: number
  /** brings a new list; asked for when the signer’s is too old, which a machine that slept finds at its first request */
  renewRevocations?: () => Promise<void>
  /** verifier key of the one signer that is believed; without it any is */
  verifierKey?: string | undefined
}

type SignerConnection = {
  socket: Socket
  waiting: Map<number, PendingAnswer>
  /** it has shown a head by the key that is pinned */
  isKnown: boolean
}

/**
 * Connects at the first call, and again at the first call after a loss. Calls share one connection and are answered
 * in any order.
 *
 * signer_unavailable means unknown: the signer may have signed. The same request again returns the stored bytes.
 * @param timeoutMs  how long one call may take, milliseconds
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
    // What the operator has named needs no one's word, a database's least of all, which is asked while the signer is away.
    identity: async () => verifierKey ?? (await call('greeting', { wire: WIRE_VERSION, head })).key,
    async bringRevocations(parts) {
      greeting = parts
      // One that is opened by this has greeted with them already; twice does no harm.
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

  /** Refused is certainly not signed, so it may be asked again. */
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
      // After that nobody waits for the answer, and what nobody waits for is not to be signed.
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
      // What is asked in one turn of the event loop leaves in one system call.
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
    // First of all: what it is asked after that it refuses, where it speaks another wire, or its ledger does not continue this head.
    opened.socket.write(encode({ id: (lastId += 1), verb: 'greeting', request: { wire: WIRE_VERSION, head } }))
    // Nobody waits for these; the process that brought the list hears of its fate at the next one.
    for (const list of greeting)
      opened.socket.write(encode({ id: (lastId += 1), verb: 'revocations', request: { list } }))
    return opened
  }

  function take(from: SignerConnection, frame: AnswerFrame): void {
    // Nothing that another signer says counts, an address least of all. Of a refusal nothing follows.
    if (!from.isKnown && 'answer' in frame) {
      const shown = readSignedHead(frame.head ?? '')
      if (shown === null || pinned === null || !isHeadOf(pinned, shown)) return lose(from, foreign())
      from.isKnown = true
    }
    // By a signer that was shown the one before and did not refuse: it is the next, also after a restore that was accepted.
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
  // It came after its time-out; the ledger has it.
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

/** Of what a signer says only what is of its form. */
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
