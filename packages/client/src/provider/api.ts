import type { Session } from '../session.ts'
import { denied, type Problem } from './errors.ts'

/** Requests to one installation as one user. */
export type Api = {
  get<T>(path: string): Promise<T>
  /** Posts a request that changes nothing. */
  post<T>(path: string, body: unknown): Promise<T>
  /**
   * Posts a write. It is repeated, under one idempotency key, until it has an answer. If the user must approve it, opens
   * the page and waits for the decision.
   */
  write<T>(path: string, body: unknown): Promise<T>
}

/** A question to the user: the page on which to decide, and the time until which it can be (ISO 8601). */
export type Approval = { id: string; url: string; expiresAt: string }

/** An error of the API. */
class ApiRefused extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Problem
  readonly retryAfterMs: number
  constructor(problem: Problem, retryAfterMs: number) {
    super(problem.detail)
    this.name = 'ApiRefused'
    this.status = problem.status
    this.code = problem.code
    this.problem = problem
    this.retryAfterMs = retryAfterMs
  }
}

const TRIES = 5
const MAX_WAIT_MS = 15_000
/** milliseconds between two questions whether the user has decided */
const POLL_MS = 1_500

/**
 * @param onApproval  shows the page on which the user decides
 * @param sleep  waits for milliseconds
 */
export function openApi({
  origin,
  session,
  onApproval,
  sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
}: {
  origin: string
  session: Session
  onApproval: (approval: Approval) => void
  sleep?: ((ms: number) => Promise<void>) | undefined
}): Api {
  async function ask<T>(path: string, init?: RequestInit): Promise<T> {
    const response = await session.fetch(new URL(path, origin), init)
    const text = await response.text()
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch (cause) {
      throw new Error(`The wallet service answered with status ${response.status} and no JSON.`, { cause })
    }
    if (!response.ok) throw new ApiRefused(body as Problem, retryAfterOf(response))
    return body as T
  }
  const postOf = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })

  /** Repeats a request whose outcome is unknown, or that may be repeated: a write has its key. */
  async function attempt<T>(path: string, init?: RequestInit): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await ask<T>(path, init)
      } catch (error) {
        const waitMs = repeatAfter(error, tries)
        if (waitMs === null || tries === TRIES) throw error
        await sleep(waitMs)
      }
    }
  }

  async function write<T>(path: string, body: unknown): Promise<T> {
    const init = postOf(body, { 'idempotency-key': crypto.randomUUID() })
    for (;;) {
      try {
        return await attempt<T>(path, init)
      } catch (error) {
        const approval = error instanceof ApiRefused && error.code === 'approval_required' ? error.problem.approval : undefined // prettier-ignore
        if (approval === undefined) throw error
        onApproval(approval)
        await decided(approval)
      }
    }
  }

  /** @throws ProviderError 4001  if the user denies, or does not decide in time */
  async function decided({ id }: Approval): Promise<void> {
    for (;;) {
      const { state } = await attempt<{ state: string }>(`/v1/approvals/${encodeURIComponent(id)}`)
      if (state === 'approved' || state === 'used') return
      if (state !== 'waiting') throw denied('The user denied the request, or did not decide in time.')
      await sleep(POLL_MS)
    }
  }

  return { get: (path) => ask(path), post: (path, body) => ask(path, postOf(body)), write }
}

/** @returns milliseconds; null: the same would happen again */
function repeatAfter(error: unknown, tries: number): number | null {
  const spread = Math.random() * 500 * 2 ** tries
  if (!(error instanceof ApiRefused)) return isSignedOut(error) ? null : spread
  const { problem, retryAfterMs } = error
  return problem.retryable ? Math.min(MAX_WAIT_MS, Math.max(retryAfterMs, spread)) : null
}

const isSignedOut = (error: unknown): boolean => (error as { status?: unknown } | null)?.status === 401

function retryAfterOf({ headers }: Response): number {
  const seconds = Number(headers.get('retry-after') ?? 0)
  return Number.isFinite(seconds) ? seconds * 1_000 : 0
}
