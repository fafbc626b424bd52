/**
 * auth-link: requests between the API and a separate authorization server.
 * Owns: requests of the API over AUTH_SOCKET, requests of the account page to the API, and which of the two programs
 *   serves which path.
 * Does not own: the responses (`oauth/`, `users/`, `account/`), which are passed in.
 * Start here for the side of the API, with `serve.ts` for the authorization server.
 */

import { createSecretKey } from 'node:crypto'
import { Agent, request as ask, type ClientRequest, type IncomingMessage } from 'node:http'
import type { AuthLink } from '../app.ts'
import { AppError, isErrorCode } from '../errors.ts'
import { type Clock } from '../clock.ts'

/** Maximum duration of one request, in milliseconds. */
const PATIENCE_MS = 10_000
/** Time for which the forms of user ids are cached, in milliseconds. */
const FORMS_MS = 60_000

type Forms = Map<string, RegExp | null>

/** Connects to the program of the authorization server over its Unix socket, at the first request. */
export function connectAuth(socketPath: string, { ticks }: Clock): AuthLink & { close(): void } {
  const agent = new Agent({ keepAlive: true })
  let forms: { known: Forms; readAt: number } | null = null

  const question = (method: 'GET' | 'POST', path: string, body?: unknown): Promise<unknown> =>
    answerOf({ agent, socketPath, method, path }, body).catch((cause: unknown) => {
      throw cause instanceof AppError ? cause : authAway(cause)
    })

  return {
    close: () => agent.destroy(),
    makeAccount: (of) => question('POST', '/internal/auth/accounts', of) as ReturnType<AuthLink['makeAccount']>,
    async subjectForm(provider) {
      if (forms === null || ticks() - forms.readAt > FORMS_MS) {
        const told = (await question('GET', '/internal/auth/forms')) as Record<string, string | null>
        const known = Object.entries(told).map(([name, form]) => [name, form === null ? null : new RegExp(form, 'u')])
        forms = { known: new Map(known as [string, RegExp | null][]), readAt: ticks() }
      }
      return forms.known.get(provider)
    },
    publishRevocations: async () => void (await question('POST', '/internal/auth/revocations', {})),
    webhookKeys: async () => {
      const told = (await question('GET', '/internal/auth/webhook-keys')) as [string, string][]
      return new Map(told.map(([kid, key]) => [kid, createSecretKey(Buffer.from(key, 'base64url'))]))
    },
    isThere: () =>
      question('GET', '/healthz').then(
        () => true,
        () => false,
      ),
  }
}

const authAway = (cause?: unknown): AppError =>
  new AppError('auth_unavailable', 'The authorization server did not respond. Retry in a moment.', {
    retryAfter: 1,
    ...(cause === undefined ? {} : { cause }),
  })

export type InnerRequest = {
  agent: Agent
  socketPath?: string
  host?: string
  port?: number
  method: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
}

/**
 * Sends one request to another program of ours and returns its response.
 * @throws AppError  the other program's error; Error if there is no response
 */
export async function answerOf({ headers = {}, ...asked }: InnerRequest, body?: unknown): Promise<unknown> {
  const sent = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const request = ask({
    ...asked,
    timeout: PATIENCE_MS,
    headers: {
      host: 'localhost',
      ...headers,
      ...(sent === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(sent.length) }),
    },
  })
  request.end(sent)
  const response = await responseOf(request)
  const answer = await boundedText(response)
  if (response.statusCode! < 300) return answer === '' ? null : unpack(answer)
  throw refusalOf(answer, response.statusCode!)
}

/** Maximum response, in bytes: those of the account page are far smaller. */
const MAX_ANSWER_BYTES = 4_194_304

async function boundedText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error('an answer that is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** @throws Error if there is no response in time */
function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.once('error', reject)
    request.once('timeout', () => request.destroy(new Error('no answer in time')))
  })
}

function refusalOf(answer: string, status: number): Error {
  let problem: Record<string, unknown>
  try {
    problem = JSON.parse(answer) as Record<string, unknown>
  } catch (cause) {
    return new Error(`an answer with status ${status} that is no problem document`, { cause })
  }
  const { code, detail, errors, funds, revert, approval } = problem
  if (typeof code !== 'string' || !isErrorCode(code)) return new Error(`an answer with status ${status}`)
  const extras = { errors, funds, revert, approval } as ConstructorParameters<typeof AppError>[2]
  return new AppError(
    code,
    String(detail),
    Object.fromEntries(Object.entries(extras!).filter(([, one]) => one !== undefined)),
  )
}

/** Encodes a value as JSON, with whole numbers of any size and times, which JSON lacks. */
export function pack(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, key, plain: unknown) {
    const given = this[key]
    if (typeof given === 'bigint') return { $int: String(given) }
    return given instanceof Date ? { $time: given.toISOString() } : plain
  })
}

/** Decodes what `pack` encoded. */
export function unpack(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value
    const { $int, $time } = value as { $int?: string; $time?: string }
    if ($int !== undefined) return BigInt($int)
    return $time === undefined ? value : new Date($time)
  })
}
