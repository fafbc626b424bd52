import { RpcError, RpcUnavailable } from './chain/rpc/rpc.ts'
import { ConfigError, readConfig, type Config } from './config.ts'
import { ChainStartError } from './devnet/anvil-binary.ts'
import { FolderInUse } from './folder-lock.ts'
import { isInReach } from './secret-file.ts'

/** Runs a program until its end: open → wait for SIGINT or SIGTERM → close in reverse order → exit. */
export async function run(
  config: Config,
  open: () => Promise<{ close(): Promise<void>; untilOver?(signal: AbortSignal): Promise<void> }>,
): Promise<never> {
  const closing = new AbortController()
  const asked = new Promise<void>((resolve) => closing.signal.addEventListener('abort', () => resolve()))
  let opened: Awaited<ReturnType<typeof open>> | null = null
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // Ctrl-C may arrive twice, from the terminal and from the launcher. The second signal changes nothing.
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

/** Reads the settings of a program. On problems, prints all of them and exits with code 1. */
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
 * Refuses to start a program that can open a file which only another program may read.
 * @param paths  paths by setting
 * @param who    end of the error message: the allowed user, and the next step
 * @throws Error naming the settings
 */
async function refuseInReach(program: string, paths: Record<string, string | undefined>, who: string): Promise<void> {
  const inReach: string[] = []
  for (const [name, path] of Object.entries(paths))
    if (path !== undefined && (await isInReach(path))) inReach.push(name)
  if (inReach.length > 0) throw new Error(`${program} can open ${inReach.join(' and ')}, ${who}`)
}

/** Settings of paths that only the signer may open. */
const SIGNER_FILES = [
  'SIGNER_KEK_FILE',
  'SIGNER_KEK_PIN_FILE',
  'SIGNER_KEK_TOKEN_FILE',
  'SIGNER_KEK_CREDENTIALS_FILE',
  'SIGNER_DIR',
] as const

/** Refuses to start a program that can open files of the signer. @throws Error naming the settings */
export const refuseKeysInReach = (
  program: string,
  config: Pick<Config, (typeof SIGNER_FILES)[number]>,
): Promise<void> =>
  refuseInReach(
    program,
    Object.fromEntries(SIGNER_FILES.map((name) => [name, config[name]])),
    "which only the signer may open. Run the signer as another user, and remove all SIGNER_… settings except SIGNER_SOCKET from the server's settings",
  )

/** Refuses to start if this program can open files that only other programs may read. @throws Error naming them */
export async function refuseSecretsInReach(settings: Config): Promise<void> {
  await refuseKeysInReach('the server', settings)
  const { AUTH_SOCKET, AUTH_KEYS_FILE, AUTH_JWKS_FILE, PROVIDERS_FILE, OPERATOR_TOKEN_FILE, SIGNER_AUTH_SOCKET } =
    settings
  if (AUTH_SOCKET === undefined) return
  // `auth-keys create` puts the private keys beside the public ones.
  const beside = AUTH_JWKS_FILE?.endsWith('.public.json')
    ? AUTH_JWKS_FILE.replace(/\.public\.json$/, '.json')
    : undefined
  await refuseInReach(
    'the API',
    {
      AUTH_KEYS_FILE,
      'the keys beside AUTH_JWKS_FILE': beside,
      PROVIDERS_FILE,
      OPERATOR_TOKEN_FILE,
      SIGNER_AUTH_SOCKET,
    },
    'which only the authorization server may open. Run `chatelaine auth run` as another user, and remove these from the settings of the API',
  )
}

/** Prints why the program could not start: the problem, its setting and, if known, the solution. */
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
        ? `This user cannot listen on PORT ${PORT} (EACCES). Choose a port of 1024 or above.`
        : `The server cannot listen on HOST: it is not an address of this machine (${error.code}).`,
    )
  else if (error instanceof RpcUnavailable || error instanceof RpcError)
    console.error(`Cannot start: no EVM node responds at RPC_URL: ${error.message}`)
  else if (error instanceof Error && (error.constructor === Error || error instanceof ChainStartError))
    console.error(`Cannot start: ${error.message.replace('another DATA_DIR', `another DATA_DIR than ${DATA_DIR}`)}`)
  else console.error('Cannot start:', error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error')
}

/** Returns whether listening at HOST and PORT failed. Listeners with other settings name those settings themselves. */
function isListening(error: unknown): error is NodeJS.ErrnoException {
  return ['listen', 'getaddrinfo'].includes((error as NodeJS.ErrnoException | null)?.syscall ?? '')
}
