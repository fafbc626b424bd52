import { RpcError, RpcUnavailable } from './chain/rpc/rpc.ts'
import { ConfigError, readConfig, type Config } from './config.ts'
import { ChainStartError } from './devnet/anvil-binary.ts'
import { FolderInUse } from './folder-lock.ts'
import { isInReach } from './secret-file.ts'

/** A program from its settings to its end: settings → open → wait for a signal → close in reverse order. */
export async function run(
  config: Config,
  open: () => Promise<{ close(): Promise<void>; untilOver?(signal: AbortSignal): Promise<void> }>,
): Promise<never> {
  const closing = new AbortController()
  const asked = new Promise<void>((resolve) => closing.signal.addEventListener('abort', () => resolve()))
  let opened: Awaited<ReturnType<typeof open>> | null = null
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // A terminal's Ctrl-C may arrive twice, from the terminal and from the launcher: the second one changes nothing.
    process.on(signal, () => closing.abort(signal))
  }
  try {
    opened = await open()
    await (opened.untilOver === undefined ? asked : opened.untilOver(closing.signal))
  } catch (error) {
    if (!closing.signal.aborted) {
      process.exitCode = 1
      explain(error, config)
    }
  } finally {
    await opened?.close()
  }
  process.exit()
}

export function settingsOrExit(part: 'server' | 'auth'): Config {
  try {
    return readConfig(process.env, part)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    console.error(error.message)
    process.exit(1)
  }
}

/**
 * What another program guards is guarded from this one, too: in production one that could open it does not start.
 * @param paths  by their settings
 * @param who  whom they are for, and the way out
 * @throws Error naming the settings
 */
export async function refuseInReach(
  program: string,
  paths: Record<string, string | undefined>,
  who: string,
): Promise<void> {
  const inReach: string[] = []
  for (const [name, path] of Object.entries(paths))
    if (path !== undefined && (await isInReach(path))) inReach.push(name)
  if (inReach.length > 0) throw new Error(`${program} can open ${inReach.join(' and ')}, ${who}`)
}

/** What only the signer may open. */
const SIGNER_FILES = [
  'SIGNER_KEK_FILE',
  'SIGNER_KEK_PIN_FILE',
  'SIGNER_KEK_TOKEN_FILE',
  'SIGNER_KEK_CREDENTIALS_FILE',
  'SIGNER_DIR',
] as const

/** @throws Error naming what only the signer may open */
export const refuseKeysInReach = (
  program: string,
  config: Pick<Config, (typeof SIGNER_FILES)[number]>,
): Promise<void> =>
  refuseInReach(
    program,
    Object.fromEntries(SIGNER_FILES.map((name) => [name, config[name]])),
    "which only the signer may: run the signer as another user, and keep the settings SIGNER_… but SIGNER_SOCKET out of the server's",
  )

/** Why it could not start, for a person: what is wrong, which setting it is, and the way out where we know it. */
function explain(error: unknown, { DATA_DIR, PORT }: Config): void {
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
