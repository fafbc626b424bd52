import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, isErrorCode, type FieldError } from '../errors.ts'
import { ownTokenFile } from '../operator/auth.ts'
import { allPages, type Registry } from './registry.ts'

const TIMEOUT_MS = 15_000

/** Sends a request to the operator API. An error response is thrown as an AppError. */
export type AskOperator = {
  <T>(method: string, path: string, body?: unknown): Promise<T>
  /** requests a page of a list, with the cursor of the next one */
  page: <T>(path: string) => Promise<{ entries: T[]; nextCursor: string | null }>
}

/**
 * Connects to the operator API of a running development server, whose origin and token are in DATA_DIR.
 * @param holder  process that holds the folder; null if unknown
 * @throws Error if no server can be reached
 */
export async function openOperator(dataDir: string, holder: string | null): Promise<AskOperator> {
  const [facts, token] = await Promise.all([
    readFile(join(dataDir, 'dev.json'), 'utf8').catch(() => '{}'),
    readFile(ownTokenFile(dataDir), 'utf8').catch(() => ''),
  ])
  const { origin } = JSON.parse(facts) as { origin?: string }
  if (origin === undefined || token === '') throw busy(dataDir, holder)

  const send = async (method: string, path: string, body?: unknown): Promise<{ answer: unknown; headers: Headers }> => {
    const response = await fetch(`${origin}/operator/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token.trim()}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch(() => {
      throw busy(dataDir, holder)
    })
    const answer: unknown = await response.json()
    if (response.ok) return { answer, headers: response.headers }
    const {
      code = '',
      detail = 'The server rejected the request.',
      errors,
    } = answer as {
      code?: string
      detail?: string
      errors?: FieldError[]
    }
    throw new AppError(isErrorCode(code) ? code : 'internal_error', detail, errors === undefined ? {} : { errors })
  }
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> =>
    (await send(method, path, body)).answer as T
  return Object.assign(ask, {
    page: async <T>(path: string) => {
      const { answer, headers } = await send('GET', path)
      return { entries: answer as T[], nextCursor: headers.get('x-next-cursor') }
    },
  })
}

/** Returns the origin of the running development server. @throws Error if there is none */
export async function originOf(dataDir: string): Promise<string> {
  const { origin } = JSON.parse(await readFile(join(dataDir, 'dev.json'), 'utf8').catch(() => '{}')) as { origin?: string } // prettier-ignore
  if (origin === undefined) throw busy(dataDir, null)
  return origin
}

/** Builds the registry that works through a running development server. */
export function registryThrough(ask: AskOperator): Registry {
  const of = (clientId: string): string => `/applications/${encodeURIComponent(clientId)}`
  const issuerOf = (clientId: string, provider: string): string =>
    `${of(clientId)}/issuers/${encodeURIComponent(provider)}`
  return {
    list: () =>
      allPages((after) => ask('GET', `/applications?${after === '' ? '' : `after=${encodeURIComponent(after)}`}`)),
    read: (clientId) => ask('GET', of(clientId)),
    usage: (clientId) => ask('GET', `${of(clientId)}/usage`),
    create: (draft) => ask('POST', '/applications', draft),
    update: (clientId, changes) =>
      Object.values(changes).every((value) => value === undefined)
        ? ask('GET', of(clientId))
        : ask('PATCH', of(clientId), changes),
    rotateSecret: (clientId) => ask('POST', `${of(clientId)}/rotate-secret`),
    resetSecret: (clientId) => ask('POST', `${of(clientId)}/reset-secret`),
    trustIssuer: async (clientId, provider, { isShared, ...draft }) => {
      if (isShared === true)
        throw new Error('Stop the server and run this again: --shared is not available through its API.')
      return ask('PUT', issuerOf(clientId, provider), draft)
    },
    distrustIssuer: (clientId, provider) => ask('DELETE', issuerOf(clientId, provider)),
    suspend: (clientId) => ask('POST', `${of(clientId)}/suspend`),
    resume: (clientId) => ask('POST', `${of(clientId)}/resume`),
    networks: () => ask('GET', '/networks'),
  }
}

const busy = (dataDir: string, holder: string | null): Error =>
  new Error(
    holder === null
      ? `No development server runs on DATA_DIR ${dataDir}. Start one with npm start, or set DATA_DIR to the folder of a running server.`
      : `Process ${holder} is using DATA_DIR ${dataDir} and does not respond. Wait until it has started or finished, or stop it, and retry.`,
  )
