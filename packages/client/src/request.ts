import {
  ApprovalRequired,
  Busy,
  ClientError,
  CursorExpired,
  InvalidInput,
  Refused,
  Reverted,
  SignedOut,
  Unknown,
} from './errors.ts'
import type { Session } from './session.ts'
import type { Approval, Problem } from './wire.ts'

/** Clock of the client; tests pass their own. */
export type Clock = {
  /** milliseconds */
  now(): number
  /** Resolves after `ms`, or at once when `signal` is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Opens the page on which the user decides, such as `({ url }) => window.open(url, 'approval', 'popup')`. */
export type OpenApproval = (approval: ApprovalRequired['approval']) => unknown

/** Settings of a client, with exactly one of `session` and `token`. */
export type ClientOptions = {
  /** origin of the service, such as `https://wallet.example`; a path before `/v1` is allowed */
  origin: string | URL
  /** sign-in of a user: `createSession` of `/browser`, or the session of `/server` */
  session?: Pick<Session, 'fetch'> & Partial<Pick<Session, 'subscribe'>>
  /** returns the access token for each request */
  token?: () => string | Promise<string>
  /** replaces the global `fetch`; only with `token` */
  fetch?: (input: string, init?: RequestInit) => Promise<Response>
  /** language of `userMessage`, as in `Accept-Language`; if absent, the browser's language */
  language?: string
  /**
   * shows the user a request that needs approval; the call then waits for the decision. If absent, the call throws
   * `ApprovalRequired`
   */
  openApproval?: OpenApproval
  /** milliseconds until a request counts as unanswered; 35,000 if absent */
  timeoutMs?: number
  clock?: Clock
  /** returns a number from 0 to below 1, for the delays between tries */
  random?: () => number
}

/** Options of every call. */
export type CallOptions = { signal?: AbortSignal | undefined }

/** Options of a write or signature. One key makes at most one: store the key with the order that it belongs to. */
export type WriteOptions = CallOptions & {
  /** 1 to 255 printable ASCII characters; a UUID if absent */
  idempotencyKey?: string
  /** your own text, 1 to 255 characters without control characters; stored with the write, not signed */
  reference?: string
  openApproval?: OpenApproval
}

type Attempt = { method?: 'GET' | 'POST'; path: string; body?: unknown; key?: string; prefer?: string | undefined }
type Query = Record<string, string | number | boolean | null | undefined>

/** A response with its body; integers are bigints. */
type Answer<T> = { body: T; headers: Headers; status: number }

/** Requests of one client. */
export type Requests = {
  /** Reads. Repeats a request without a response. @throws ClientError */
  get<T>(path: string, query?: Query, options?: CallOptions & { prefer?: string | undefined }): Promise<Answer<T>>
  /**
   * Opens a stream, which has no time limit once it has begun. @returns null  the response is no stream
   * @throws ClientError; Busy if the service did not respond, with the code `no_stream` if it took too long
   */
  open(path: string, query: Query, options: CallOptions): Promise<Response | null>
  /** Posts a read. Repeats it like `get`. */
  ask<T>(path: string, body: unknown, options?: CallOptions): Promise<Answer<T>>
  /** Writes with an idempotency key, and asks the user for approval. @param then  converts the answer to the result */
  write<T, R>(path: string, request: object, options: WriteOptions, then: (body: T, key: string) => R): Promise<R>
  /**
   * Posts an action without a key, which is not repeated if there is no response. @param recover  makes the request of
   * `resume`
   */
  act<T>(path: string, options: CallOptions, recover: (options?: CallOptions) => Promise<T>): Promise<T>
  sleep: Clock['sleep']
  /** from 0 to below 1 */
  random(): number
}

const MAX_TRIES = 5
const WINDOW_MS = 60_000
const FIRST_DELAY_MS = 500
const POLL_MS = 1_000

/** Codes after which a write may have been made. */
const MAY_BE_DONE = /^(internal_error|signer_unavailable|database_unavailable)$/
/**
 * Rejections that prove nothing about an earlier try without a response, because the service makes them before it
 * checks the key.
 */
const BEFORE_THE_KEY = /^(insufficient_scope|application_suspended|account_frozen)$/
/** Statuses of the other rejections, which the service makes after it has checked the key. */
const AFTER_THE_KEY = [400, 403, 422, 429]

/** Creates the request layer of a client. */
export function openRequests(options: ClientOptions): Requests {
  const { session, language, timeoutMs = 35_000, clock = systemClock, random = Math.random } = options
  const base = String(options.origin).replace(/\/+$/, '')

  /** Returns the headers of every request. @throws the error of `token` */
  async function headersOf(accept: string): Promise<Record<string, string>> {
    const headers: Record<string, string> = { accept }
    if (language !== undefined) headers['accept-language'] = language
    if (session === undefined) headers.authorization = `Bearer ${await tokenOf(options)}`
    return headers
  }

  async function request(path: string, of: RequestInit): Promise<Response> {
    const url = `${base}${path}`
    // Never followed, as with `error`, which workerd does not have.
    const init: RequestInit = { ...of, redirect: 'manual' }
    // Not a method of anything: browsers and workerd reject any other `this` of their own `fetch`.
    const { fetch: plain = globalThis.fetch } = options
    return session === undefined ? plain(url, init) : session.fetch(url, init)
  }

  /**
   * Sends a request once. @returns null if the service did not respond @throws the error of the session or of `token`
   */
  async function send(attempt: Attempt, signal?: AbortSignal): Promise<Answer<unknown> | null> {
    const { method, path, body, key, prefer } = attempt
    const headers = await headersOf('application/json')
    if (body !== undefined) headers['content-type'] = 'application/json'
    if (key !== undefined) headers['idempotency-key'] = key
    if (prefer !== undefined) headers.prefer = prefer
    const limit = AbortSignal.timeout(timeoutMs)
    const init: RequestInit = {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers,
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    }
    if (body !== undefined) init.body = JSON.stringify(body, asText)
    try {
      const response = await request(path, init)
      const answer = {
        body: JSON.parse(await response.text(), revive) as unknown,
        headers: response.headers,
        status: response.status,
      }
      // A redirect or a page of a proxy is not a response of the service.
      return response.ok || (response.status >= 400 && isProblem(answer.body)) ? answer : null
    } catch (error) {
      // Do not pass on other errors: their message may include the headers of the request.
      if (error instanceof ClientError) throw error
      return null
    }
  }

  /**
   * Tries until an answer settles the request.
   * @param resume  for a write, whose outcome is unknown after a try without a response; null for a read
   * @param repeats  whether a try without a response is repeated
   */
  async function settle(
    attempt: Attempt,
    { signal }: CallOptions,
    resume: Unknown['resume'] | null,
    repeats = true,
  ): Promise<Answer<unknown>> {
    const end = clock.now() + WINDOW_MS
    let unknown: Unknown | null = null
    for (let tries = 1; ; tries++) {
      if (signal?.aborted) throw unknown ?? signal.reason
      const answer = await send(attempt, signal).catch((error: unknown) => {
        throw unknown ?? error
      })
      if (answer !== null && answer.status < 400) return answer
      const problem = answer === null ? null : (answer.body as Problem)
      if (resume !== null && (problem === null || MAY_BE_DONE.test(problem.code))) {
        const { code = 'no_answer', status = 0, detail = 'The service did not answer.' } = problem ?? {}
        const message = `${detail} The write may have been made: resume it with its key.`
        unknown = new Unknown({ code, status, problem, message, key: attempt.key ?? null, resume })
      }
      const retryAfterMs = retryAfterOf(answer)
      const delay = (retryAfterMs ?? 0) + random() * FIRST_DELAY_MS * 2 ** tries
      const isRepeatable = problem === null ? repeats : allowsRepeat(problem)
      if (isRepeatable && tries < MAX_TRIES && clock.now() + delay < end) {
        await clock.sleep(delay, signal)
        continue
      }
      const isSettled =
        problem !== null &&
        !isRepeatable &&
        AFTER_THE_KEY.includes(problem.status) &&
        !BEFORE_THE_KEY.test(problem.code)
      if (unknown !== null && !isSettled) throw unknown
      if (problem !== null) throw errorOf(problem, retryAfterMs)
      if (signal?.aborted) throw signal.reason
      throw unanswered('no_answer')
    }
  }

  async function write<T, R>(
    path: string,
    request: object,
    { idempotencyKey: key = crypto.randomUUID(), reference, openApproval = options.openApproval, signal }: WriteOptions,
    then: (body: T, key: string) => R,
  ): Promise<R> {
    const body = { ...request, ...(reference === undefined ? {} : { reference }) }
    async function run(of: CallOptions = {}, asked?: string): Promise<R> {
      try {
        return then((await settle({ path, body, key }, of, run)).body as T, key)
      } catch (error) {
        const problem = error instanceof Refused ? error.problem : null
        if (problem?.approval === undefined) throw error
        const { approval, code, detail, status } = problem
        const needed = new ApprovalRequired<R>({
          ...{ code, message: detail, status, problem, approval, key },
          resume: async (more = {}) => {
            if ((await decided(approval.id, more)) === 'expired') throw needed
            return run(more, approval.id)
          },
        })
        // If an approval does not let its request through, do not ask for it again in a loop.
        if (openApproval === undefined || asked === approval.id) throw needed
        await openApproval(approval)
        return needed.resume(of)
      }
    }
    return run({ signal })
  }

  /** Waits for the user's decision. @returns the state, which is not `waiting` */
  async function decided(id: string, of: CallOptions): Promise<Approval['state']> {
    for (;;) {
      const { body } = await get<Approval>(`/v1/approvals/${encodeURIComponent(id)}`, {}, of)
      if (body.state !== 'waiting') return body.state
      await clock.sleep(POLL_MS, of.signal)
    }
  }

  const get: Requests['get'] = async (path, query = {}, { signal, prefer } = {}) =>
    (await settle({ path: `${path}${textOf(query)}`, prefer }, { signal }, null)) as Answer<never>

  const open: Requests['open'] = async (path, query, { signal }) => {
    const headers = await headersOf('text/event-stream')
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), timeoutMs)
    try {
      const given = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal])
      const response = await request(`${path}${textOf(query)}`, { headers, signal: given })
      if (response.ok && /^text\/event-stream\b/.test(response.headers.get('content-type') ?? '')) return response
      const body = JSON.parse(await response.text()) as Problem
      if (response.ok) return null
      if (isProblem(body)) throw errorOf(body, retryAfterOf(response))
    } catch (error) {
      if (error instanceof ClientError) throw error
    } finally {
      clearTimeout(timer)
    }
    throw unanswered(late.signal.aborted ? 'no_stream' : 'no_answer')
  }

  return {
    get,
    open,
    write,
    ask: async (path, body, of = {}) => (await settle({ path, body }, of, null)) as Answer<never>,
    act: async (path, of, recover) => (await settle({ method: 'POST', path }, of, recover, false)).body as never,
    sleep: clock.sleep,
    random,
  }
}

/** Returns whether the service allows the same request again. A gas budget without a reset time needs an operator. */
const allowsRepeat = ({ retryable, resetsAt, code }: Problem): boolean =>
  (retryable && resetsAt !== null) || code === 'invalid_dpop_proof'

/** Creates the error for a problem document. */
export function errorOf(problem: Problem, retryAfterMs: number | null): ClientError {
  const { code, detail, status, revert = null, errors = [], resumeAt } = problem
  const facts = { code, message: detail, status, problem }
  if (status === 401) return new SignedOut(facts)
  if (revert !== null || code === 'execution_reverted') return new Reverted({ ...facts, revert })
  if (allowsRepeat(problem)) return new Busy({ ...facts, retryAfterMs })
  if (resumeAt !== undefined) return new CursorExpired({ ...facts, resumeAt })
  return status === 400 || errors.length > 0 ? new InvalidInput(facts) : new Refused(facts)
}

const unanswered = (code: 'no_answer' | 'no_stream'): Busy =>
  new Busy({ code, message: 'The service did not answer. Nothing was changed. Try again later.' })

const isProblem = (body: unknown): boolean => typeof (body as Partial<Problem> | null)?.retryable === 'boolean'

function retryAfterOf(answer: Pick<Answer<unknown>, 'headers'> | null): number | null {
  const text = answer?.headers.get('retry-after') ?? ''
  return /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : null
}

/** Converts a bigint to decimal text. */
const asText = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value)

/** Converts each big-number object of the API to a bigint. */
function revive(_key: string, value: unknown): unknown {
  const { type, hex } = (value ?? {}) as { type?: unknown; hex?: unknown }
  if (type !== 'BigNumber' || typeof hex !== 'string') return value
  return hex.startsWith('-') ? -BigInt(hex.slice(1)) : BigInt(hex)
}

function textOf(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`
}

async function tokenOf({ token }: ClientOptions): Promise<string> {
  const text = await token?.()
  // Reject characters that a header cannot contain: the error about them would include the token.
  if (text === undefined || !/^[\x21-\x7e]+$/.test(text)) throw new SignedOut()
  return text
}

const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      signal?.addEventListener('abort', wake)
      if (signal?.aborted) wake()
    }),
}
