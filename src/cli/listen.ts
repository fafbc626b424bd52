import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { systemClock } from '../clock.ts'
import type { WireEvent } from '../events/wire.ts'
import { newSigningSecret, showSecret, signatureHeaders } from '../webhooks/sign.ts'
import { readInstallationSettings } from './database.ts'
import { collect } from './options.ts'
import { openOperator, originOf } from './reach.ts'
import { inShell, onSignals, type Shell } from './shell.ts'

/** milliseconds for a request to the server, which waits up to `WAIT_SECONDS`, and for one delivery, as for a webhook */
const [READ_MS, DELIVERY_MS] = [45_000, 15_000]
const WAIT_SECONDS = 30
/** milliseconds before the first retry, doubled up to the second number */
const [FIRST_DELAY_MS, MAX_DELAY_MS] = [1_000, 10_000]

type ListenOptions = {
  forwardTo: string
  type?: string[]
  user?: string
  app: string
  clientId?: string
  clientSecretFile?: string
  origin?: string
  cursor: string
  secretFile?: string
}

/** Builds `chatelaine listen`: forwards events to a program of the developer, as a webhook does. */
export function listen(shell: Shell): Command {
  return new Command('listen')
    .description('send the events of an application to a local URL, signed and in order, as a webhook does')
    .requiredOption('--forward-to <url>', 'such as http://localhost:3000/hook')
    .option('--type <type>', 'type or group, such as transaction.*; repeat for several; default: all', collect)
    .option('--client-id <id>', 'confidential application whose events are sent; requires --client-secret-file')
    .option('--client-secret-file <file>', 'file with the secret of the application')
    .option('--user <name>', 'development only, instead of --client-id: events of this user, such as alice')
    .option('--app <client-id>', 'application of --user', 'demo')
    .option('--origin <url>', 'origin of the server; default: the development server on DATA_DIR')
    .option('--cursor <cursor>', 'continue after it, as printed at the end; default: events from now on', 'now')
    .option('--secret-file <file>', 'file with the whsec_… secret of the signatures; default: a new one, printed')
    .action(inShell(shell, run))
}

async function run(shell: Shell, given: ListenOptions): Promise<void> {
  const target = readUrl('--forward-to', given.forwardTo).href
  const secret = given.secretFile === undefined ? newSigningSecret() : await readSigningSecret(given.secretFile)
  const { dataDir } = readInstallationSettings(shell.env)
  const origin = given.origin === undefined ? await originOf(dataDir) : readUrl('--origin', given.origin).origin
  const authorize = await openTokens(shell, given, { dataDir, origin })
  const ending = new AbortController()
  const forget = onSignals(['SIGINT', 'SIGTERM'], () => ending.abort())
  const reader = { origin, authorize, types: given.type?.join(','), signal: ending.signal }
  let { cursor } = given
  try {
    // Also checks the options before anything is printed. `now` becomes the cursor of this moment.
    cursor = (await readPage(reader, cursor, 0)).cursor
    if (given.cursor !== 'now') cursor = given.cursor
    shell.console.log(`Forwarding events of ${origin} to ${target}`)
    if (given.secretFile === undefined) shell.console.log(`Secret of the signatures: ${showSecret(secret)}`)
    for (let delay = FIRST_DELAY_MS; !ending.signal.aborted;) {
      const began = systemClock.ticks()
      const page = await readPage(reader, cursor, WAIT_SECONDS).catch((error: unknown) => {
        if (ending.signal.aborted) return null
        if (!(error instanceof Unavailable)) throw error
        shell.console.error(`${error.message} It is retried.`)
        return null
      })
      if (page !== null)
        for (const event of page.events)
          if (!(await deliver(shell, { target, secret, event, signal: ending.signal }))) return
      cursor = page?.cursor ?? cursor
      const hasWaited = systemClock.ticks() - began >= FIRST_DELAY_MS
      if (page === null || (page.events.length === 0 && !hasWaited)) {
        await systemClock.sleep(delay, ending.signal).catch(() => {})
        delay = Math.min(MAX_DELAY_MS, delay * 2)
      } else delay = FIRST_DELAY_MS
    }
  } finally {
    forget()
    if (cursor !== given.cursor) shell.console.log(`Continue with --cursor ${cursor}`)
  }
}

/** The server did not respond, or said that a retry helps. */
class Unavailable extends Error {}

type ListenSource = { origin: string; authorize: () => Promise<string>; types: string | undefined; signal: AbortSignal }

/** Reads a page. A token that has ended is replaced once. @throws Unavailable */
async function readPage(
  reader: ListenSource,
  cursor: string,
  wait: number,
): Promise<{ events: WireEvent[]; cursor: string }> {
  const query = new URLSearchParams({ cursor, wait: String(wait) })
  if (reader.types !== undefined) query.set('types', reader.types)
  const headers = { authorization: `Bearer ${await reader.authorize()}` }
  const response = await send(`${reader.origin}/v1/events?${query.toString()}`, { headers }, reader.signal, READ_MS)
  const next = response.headers.get('x-next-cursor')
  if (response.ok && next !== null) return { events: (await response.json()) as WireEvent[], cursor: next }
  throw await problemOf(response)
}

async function problemOf(response: Response): Promise<Error> {
  const problem = (await response.json().catch(() => null)) as {
    detail?: string
    retryable?: boolean
    resumeAt?: string
  } | null
  const detail = problem?.detail ?? `The server responded with status ${response.status}.`
  if (response.status >= 500 || problem?.retryable === true) return new Unavailable(detail)
  return new Error(problem?.resumeAt === undefined ? detail : `${detail} Continue with --cursor ${problem.resumeAt}`)
}

async function send(url: string, init: RequestInit, signal: AbortSignal, patienceMs: number): Promise<Response> {
  try {
    return await fetch(url, {
      ...init,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]),
    })
  } catch {
    throw new Unavailable(`${new URL(url).origin} does not respond.`)
  }
}

/** Sends one event until the endpoint responds. @returns false if the command ends before */
async function deliver(
  { console }: Shell,
  { target, secret, event, signal }: { target: string; secret: Buffer; event: WireEvent; signal: AbortSignal },
): Promise<boolean> {
  const body = JSON.stringify(event)
  for (let delay = FIRST_DELAY_MS; !signal.aborted; delay = Math.min(MAX_DELAY_MS, delay * 2)) {
    const at = Math.floor(systemClock.wall() / 1_000)
    const headers = { 'content-type': 'application/json', ...signatureHeaders([secret], { id: event.id, at, body }) }
    const response = await send(target, { method: 'POST', headers, body }, signal, DELIVERY_MS).catch(() => null)
    await response?.body?.cancel().catch(() => {})
    if (signal.aborted && response === null) return false
    console.log(`${event.timestamp}  ${event.type}  ${event.id}  ${response?.status ?? 'no response, it is retried'}`)
    if (response !== null) return true
    await systemClock.sleep(delay, signal).catch(() => {})
  }
  return false
}

/** Opens the way to a token: of an application by its secret, or of a development user. */
async function openTokens(
  { env }: Shell,
  { clientId, clientSecretFile, user, app }: ListenOptions,
  { dataDir, origin }: { dataDir: string; origin: string },
): Promise<() => Promise<string>> {
  if ((clientId === undefined) !== (clientSecretFile === undefined))
    throw new Error('--client-id and --client-secret-file must be given together.')
  if ((clientId === undefined) === (user === undefined))
    throw new Error('Give either --client-id with --client-secret-file or, in development, --user.')
  if (user !== undefined) {
    if (env.NODE_ENV === 'production') throw new Error('--user works in development only. Use --client-id.')
    const ask = await openOperator(dataDir, null)
    const wanted = { user: user.startsWith('DEV-') ? user : `DEV-${user}`, clientId: app }
    return cached(async () => ({
      token: (await ask<{ token: string }>('POST', '/tokens', wanted)).token,
      seconds: 300,
    }))
  }
  const secret = (await readText('--client-secret-file', clientSecretFile!)).trim()
  const basic = Buffer.from(`${encodeURIComponent(clientId!)}:${encodeURIComponent(secret)}`).toString('base64')
  return cached(async () => {
    const response = await send(
      `${origin}/oauth/token`,
      {
        method: 'POST',
        headers: { authorization: `Basic ${basic}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'events:read' }),
      },
      new AbortController().signal,
      DELIVERY_MS,
    )
    const answer = (await response.json().catch(() => ({}))) as { access_token?: string; expires_in?: number; error_description?: string } // prettier-ignore
    if (answer.access_token !== undefined) return { token: answer.access_token, seconds: answer.expires_in ?? 60 }
    const why = answer.error_description ?? `status ${response.status}`
    throw response.status >= 500
      ? new Unavailable(`The server gave no token: ${why}.`)
      : new Error(`The server gave no token: ${why}`)
  })
}

/** Asks for a token again at half of its life. */
function cached(ask: () => Promise<{ token: string; seconds: number }>): () => Promise<string> {
  let known = { token: '', until: 0 }
  return async () => {
    if (systemClock.ticks() >= known.until) {
      const { token, seconds } = await ask()
      known = { token, until: systemClock.ticks() + seconds * 500 }
    }
    return known.token
  }
}

function readUrl(option: string, text: string): URL {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '')
    throw new Error(`${option} must be an http or https URL without a user name, such as http://localhost:3000/hook.`)
  return url
}

async function readText(option: string, file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => {
    throw new Error(`${option}: the file cannot be read.`)
  })
}

async function readSigningSecret(file: string): Promise<Buffer> {
  const text = (await readText('--secret-file', file)).trim()
  const bytes = Buffer.from(text.replace(/^whsec_/, ''), 'base64')
  if (!/^whsec_[A-Za-z0-9+/]+={0,2}$/.test(text) || bytes.length < 24 || bytes.length > 64)
    throw new Error('--secret-file must hold whsec_ and 24 to 64 bytes in base64.')
  return bytes
}
