import { RpcError, RpcUnavailable } from './chain/rpc/rpc.ts'
import { ConfigError, readConfig, type Config } from './config.ts'
import { ChainStartError } from './devnet/anvil-binary.ts'
import { banner } from './devnet/development.ts'
import { FolderInUse } from './folder-lock.ts'
import { open, type OpenedProgram } from './open.ts'
import { isInReach } from './secret-file.ts'
import { makeFolder } from './store/folder.ts'

/**
 * The server: settings → open → start → wait for a signal → close in reverse order. Without settings it is a
 * development installation that brings its own database, chain, signer and identity provider.
 */
const startedAt = Date.now()

const USAGE = `Usage: npm start

Starts the server. It takes no arguments: all settings are environment variables, all of them in
docs/reference/configuration.md. Without any it is a development installation with a database, a chain, a signer and a
sign-in of its own.

  PORT=4000                 where it listens
  DATA_DIR=.chatelaine      where it keeps its files
  DATABASE_URL=postgres://… PostgreSQL instead of the embedded database
  RPC_URL=http://…          another chain than the embedded one
  NODE_ENV=production       see docs/guides/operating.md

Commands for operators: npx chatelaine --help`

refuseArguments(process.argv.slice(2))
const config = settingsOrExit()
const closing = new AbortController()
let opened: OpenedProgram | null = null
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // A terminal's Ctrl-C may arrive twice, from the terminal and from the launcher: the second one changes nothing.
  process.on(signal, () => closing.abort(signal))
}

try {
  await refuseKeysInReach(config)
  // Production keeps nothing there: its folder may be one that nobody can write to.
  if (config.NODE_ENV !== 'production') await makeFolder(config.DATA_DIR, 'DATA_DIR')
  opened = await open(config)
  if (opened.development !== null) await greet(opened.development)
  await opened.untilOver(closing.signal)
} catch (error) {
  if (!closing.signal.aborted) {
    process.exitCode = 1
    explain(error)
  }
} finally {
  await opened?.close()
}
process.exit()

/** A flag that is not known must not start a server that does something else than was meant. */
function refuseArguments(words: string[]): void {
  if (words.length === 0) return
  const isHelp = words.every((word) => word === '--help' || word === '-h')
  if (isHelp) console.log(USAGE)
  else console.error(`Unknown argument ${words.find((word) => !/^(--help|-h)$/.test(word))}.\n\n${USAGE}`)
  process.exit(isHelp ? 0 : 1)
}

function settingsOrExit(): Config {
  try {
    return readConfig(process.env, 'server')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    console.error(error.message)
    process.exit(1)
  }
}

/**
 * What the signer guards is guarded from the server, too: in production a server that could open it does not start.
 * @throws Error naming the settings
 */
async function refuseKeysInReach({
  NODE_ENV,
  SIGNER_KEK_FILE,
  SIGNER_KEK_PIN_FILE,
  SIGNER_DIR,
}: Config): Promise<void> {
  if (NODE_ENV !== 'production') return
  const inReach: string[] = []
  for (const [name, path] of Object.entries({ SIGNER_KEK_FILE, SIGNER_KEK_PIN_FILE, SIGNER_DIR }))
    if (path !== undefined && (await isInReach(path))) inReach.push(name)
  if (inReach.length > 0)
    throw new Error(
      `the server can open ${inReach.join(' and ')}, which only the signer may: run the signer as another user, and keep the settings SIGNER_… but SIGNER_SOCKET out of the server's`,
    )
}

/** The newcomer's first screen, with a token that works. */
async function greet({ facts, isEmbedded, issueToken }: NonNullable<OpenedProgram['development']>): Promise<void> {
  const { token, userId } = await issueToken({ username: 'demo', clientId: facts.clientId })
  const seconds = ((Date.now() - startedAt) / 1_000).toFixed(1)
  const isOpen = config.DEVELOPMENT_OPEN_TO === 'everyone'
  console.log(banner(facts, { token, userId, tokenSeconds: config.ACCESS_TOKEN_SECONDS, seconds, isEmbedded, isOpen }))
}

/** Why it could not start, for a person: what is wrong, which setting it is, and the way out where we know it. */
function explain(error: unknown): void {
  const { DATA_DIR, PORT } = config
  if (error instanceof FolderInUse)
    console.error(
      `Another Chatelaine is using DATA_DIR ${DATA_DIR} (process ${error.holder}). Stop it, or choose another DATA_DIR and PORT.`,
    )
  else if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE')
    console.error(`PORT ${PORT} is in use. Choose another: PORT=${PORT + 1} npm start`)
  else if (isListening(error))
    console.error(
      error.code === 'EACCES'
        ? `PORT ${PORT} cannot be listened on by this user (EACCES): choose one from 1024 on.`
        : `HOST is not an address of this machine that can be listened on (${error.code}).`,
    )
  else if (error instanceof RpcUnavailable || error instanceof RpcError)
    console.error(`Cannot start: no EVM node responds at RPC_URL: ${error.message}`)
  else if (error instanceof Error && (error.constructor === Error || error instanceof ChainStartError))
    console.error(`Cannot start: ${error.message.replace('another DATA_DIR', `another DATA_DIR than ${DATA_DIR}`)}`)
  else console.error('Cannot start:', error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error')
}

/** What asking the system for HOST and PORT ends with; listeners with settings of their own name them themselves. */
function isListening(error: unknown): error is NodeJS.ErrnoException {
  return ['listen', 'getaddrinfo'].includes((error as NodeJS.ErrnoException | null)?.syscall ?? '')
}
