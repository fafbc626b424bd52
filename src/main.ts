import { mkdir } from 'node:fs/promises'
import { RpcError, RpcUnavailable } from './chain/rpc.ts'
import { ConfigError, readConfig, type Config } from './config.ts'
import { ChainStartError } from './devnet/anvil.ts'
import { banner } from './devnet/development.ts'
import { open, type Opened } from './open.ts'
import { FolderInUse } from './store/folder-lock.ts'

/**
 * The server: settings → open → start → wait for a signal → close in reverse order. Without settings it is a
 * development installation that brings its own database, chain, signer and identity provider.
 */
const startedAt = Date.now()

const config = settingsOrExit()
const closing = new AbortController()
let opened: Opened | null = null
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // A terminal's Ctrl-C may arrive twice, from the terminal and from the launcher: the second one changes nothing.
  process.on(signal, () => closing.abort(signal))
}

try {
  await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
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

function settingsOrExit(): Config {
  try {
    return readConfig(process.env, 'server')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    console.error(error.message)
    process.exit(1)
  }
}

/** The newcomer's first screen, with a token that works. */
async function greet({ facts, isEmbedded, issueToken }: NonNullable<Opened['development']>): Promise<void> {
  const { token, userId } = await issueToken({ username: 'demo', clientId: facts.clientId })
  console.log(banner(facts, { token, userId, isEmbedded, seconds: ((Date.now() - startedAt) / 1_000).toFixed(1) }))
}

/** Why it could not start, for a person: what is wrong, which setting it is, and the way out where we know it. */
function explain(error: unknown): void {
  const { DATA_DIR, PORT } = config
  if (error instanceof FolderInUse)
    console.error(
      `Another Chatelaine runs on DATA_DIR ${DATA_DIR} (process ${error.pid}). Stop it, or choose another DATA_DIR and PORT.`,
    )
  else if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE')
    console.error(`PORT ${PORT} is in use. Choose another: PORT=${PORT + 1} npm start`)
  else if (error instanceof RpcUnavailable || error instanceof RpcError)
    console.error(`Cannot start: no EVM node answers at RPC_URL: ${error.message}`)
  else if (error instanceof Error && (error.constructor === Error || error instanceof ChainStartError))
    console.error(`Cannot start: ${error.message}`)
  else console.error('Cannot start:', error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error')
}
