/**
 * signer: a program of its own that holds the keys and signs.
 * Owns: the keys, the ledger of what was signed with its witness, the rules (`judge.ts`, `policy.ts`), its own check of
 *   access tokens and revocations.
 * Does not own: nonces to use, fees, broadcasts: the server (`transactions/`) decides and asks. It reads neither
 *   database nor chain.
 * The server imports `client.ts` and `wire.ts` only. Start with `sign.ts`, then `judge.ts`.
 */

import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { ConfigError, configKeys, readConfig, type Config, type ConfigKey } from '../config.ts'
import { openLog, type Logger } from '../log.ts'
import { anchorOf, assertAnchored } from './anchor.ts'
import { createAccount } from './create.ts'
import { startCurve } from './curve.ts'
import { openDek, openDeks } from './deks.ts'
import { openFreezes } from './freezes.ts'
import { openGroup } from './group.ts'
import { isInside, makeKekFile, openKekFile, type Kek } from './kek.ts'
import { openKeyFile } from './key-file.ts'
import { openKeys } from './keys.ts'
import { openLedger } from './ledger.ts'
import { openMeters } from './meters.ts'
import type { PolicyLimits } from './policy.ts'
import { openPolicyInForce, withPolicyFreezes } from './policy-in-force.ts'
import { recall, recallSince } from './recall.ts'
import { readFreezeRequest } from './request.ts'
import { LedgerDamaged, Refusal, StartError } from './refusal.ts'
import { openRevocations } from './revocations.ts'
import { openRotation } from './rotation.ts'
import { check, sign, type Inside } from './sign.ts'
import { adminSocketIn, listen, MAX_SOCKET_PATH, type AdminHandlers, type Handlers } from './socket.ts'
import { isSqliteError, openStore, type Store } from './store.ts'
import { openTokens } from './tokens.ts'
import { openUnattendedFees } from './unattended.ts'
import { openWitness } from './witness.ts'
import { wrappedPage } from './wrapped.ts'

/**
 * The signer: a program of its own that holds the keys and answers on a Unix socket. Settings: SIGNER_… and
 * LOG_LEVEL. Whatever NODE_ENV says it is in production mode, unless it is given `--development`: then it makes a master
 * key where there is none. Prints `ready` when it listens; ends on SIGTERM, SIGINT, and with `--with-parent` when standard input
 * ends, which it does when the parent is gone however it died.
 *
 * A damaged ledger does not end it: it listens and refuses every verb with `ledger_damaged`, so that the server can
 * tell what is wrong from a signer that is merely away.
 */
async function main(): Promise<void> {
  const settings = readSettings(process.env)
  // Before any file is made: folder 0700, files 0600, and the socket closed to others until it has its own mode.
  process.umask(0o077)
  // A listener of ours takes the place of Node's, which would open a debugger to every user of this machine.
  process.on('SIGUSR1', () => {})
  const log = openLog('signer', settings.logLevel)
  const curve = startCurve(randomBytes(32))
  // Slower, and its memory is a buffer of the JavaScript engine: who runs it on purpose is warned at each start.
  if (curve === 'wasm') log.warn('curve_in_webassembly', { platform: `${process.platform}-${process.arch}` })

  const signer = openSigner(settings, log)
  const admin = await listenForAdmin(settings, signer.admin, log)
  const server = await listen({
    path: settings.socket,
    mode: settings.socketMode,
    handlers: signer.handlers,
    log,
  })
  process.stdout.write('ready\n')
  log.info('signer_ready', { isDamaged: signer.isDamaged, curve })

  await stopSignal()
  // A peer that does not read its answers may not keep the store open.
  setTimeout(() => process.exit(1), 5_000).unref()
  await Promise.all([server.close(), admin?.close()])
  signer.close()
  log.info('signer_stopped')
  process.exit(0)
}

type SignerConfig = {
  socket: string
  /** permissions of the socket */
  socketMode: number
  /** null: beside the store */
  adminSocket: string | null
  folder: string
  kekFile: string
  /** the master key that `rotate-kek` goes over to */
  kekNextFile: string | undefined
  /** what the authorization server writes: believed in development only */
  jwksFile: string | undefined
  issuer: string
  audience: string
  limits: PolicyLimits
  maxTokenSeconds: number
  policyFile: string | undefined
  /** 0: lists of what is revoked are not used */
  revocationsSeconds: number
  logLevel: Config['LOG_LEVEL']
  isDevelopment: boolean
}

const REQUIRED = [
  'SIGNER_SOCKET',
  'SIGNER_DIR',
  'SIGNER_KEK_FILE',
  'SIGNER_ISSUER',
  'SIGNER_AUDIENCE',
] as const satisfies ConfigKey[]

/** A plain transfer's gas at the highest price that a server signs by itself (FEE_CAP_GWEI). */
const FILL_FEE_WEI = 21_000n * 1_000n * 10n ** 9n

const HOUR_MS = 3_600_000

/** Nothing here has a default: the signer never guesses where keys are. @throws ConfigError naming every problem */
function readSettings(env: NodeJS.ProcessEnv): SignerConfig {
  const problems: string[] = []
  let config: Config | undefined
  try {
    config = readConfig(env, 'signer')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    problems.push(...error.problems)
  }
  for (const key of REQUIRED) {
    const isNamed = problems.some((line) => line.startsWith(`${key} `))
    if ((env[key] ?? '') === '' && !isNamed) problems.push(`${key} is missing: ${configKeys[key].help}`)
  }
  const isDevelopment = process.argv.includes('--development')
  if (isDevelopment && (env.SIGNER_JWKS_FILE ?? '') === '')
    problems.push(`SIGNER_JWKS_FILE is missing: ${configKeys.SIGNER_JWKS_FILE.help}`)
  if (config === undefined || problems.length > 0) throw new ConfigError(problems)
  const settings = {
    socket: config.SIGNER_SOCKET!,
    socketMode: Number.parseInt(config.SIGNER_SOCKET_MODE, 8),
    folder: config.SIGNER_DIR!,
    adminSocket: config.SIGNER_ADMIN_SOCKET ?? null,
    kekFile: config.SIGNER_KEK_FILE!,
    kekNextFile: config.SIGNER_KEK_NEXT_FILE,
    jwksFile: config.SIGNER_JWKS_FILE,
    issuer: config.SIGNER_ISSUER!,
    audience: config.SIGNER_AUDIENCE!,
    limits: {
      maxFeeWei: config.SIGNER_MAX_FEE_WEI ?? 10n ** 18n,
      maxFillFeeWei: config.SIGNER_MAX_FILL_FEE_WEI ?? FILL_FEE_WEI,
      maxFills: config.SIGNER_MAX_FILLS,
      maxRaise: BigInt(config.SIGNER_MAX_RAISE),
      maxUnattendedFeeWei: config.SIGNER_MAX_UNATTENDED_FEE_WEI ?? 10n ** 20n,
      chains: config.SIGNER_CHAINS === undefined ? null : new Set(config.SIGNER_CHAINS),
    },
    maxTokenSeconds: config.SIGNER_MAX_TOKEN_SECONDS,
    policyFile: config.SIGNER_POLICY_FILE,
    revocationsSeconds: config.SIGNER_REVOCATIONS_SECONDS,
    logLevel: config.LOG_LEVEL,
    isDevelopment,
  }
  if (!settings.isDevelopment && settings.limits.chains === null)
    throw new ConfigError([`SIGNER_CHAINS is missing: ${configKeys.SIGNER_CHAINS.help}`])
  if (settings.isDevelopment && config.NODE_ENV === 'production')
    throw new ConfigError(['NODE_ENV is production, which contradicts --development: remove one of them'])
  for (const key of ['SIGNER_KEK_FILE', 'SIGNER_KEK_NEXT_FILE'] as const)
    if (!settings.isDevelopment && config[key] !== undefined && isInside(settings.folder, config[key]))
      throw new ConfigError([`${key} must not be inside SIGNER_DIR: a backup of one would contain both`])
  const [, origin] = /^(.+)\/oauth$/.exec(settings.issuer) ?? []
  if (!settings.isDevelopment && settings.audience !== `${origin}/v1`) {
    throw new ConfigError([
      'SIGNER_ISSUER and SIGNER_AUDIENCE must be PUBLIC_ORIGIN/oauth and PUBLIC_ORIGIN/v1 of one PUBLIC_ORIGIN: no token would be accepted',
    ])
  }
  if (!settings.isDevelopment && settings.revocationsSeconds === 0) {
    throw new ConfigError(['SIGNER_REVOCATIONS_SECONDS cannot be 0 in production: revoked tokens would still sign'])
  }
  return settings
}

type RunningSigner = { handlers: Handlers; admin: AdminHandlers; isDamaged: boolean; close: () => void }

function openSigner(settings: SignerConfig, log: Logger): RunningSigner {
  let store: Store | undefined
  try {
    store = openStore(settings.folder)
    return openOn(store, settings, log)
  } catch (error) {
    if (!(error instanceof LedgerDamaged) && !isSqliteError(error)) throw error
    const reason = isSqliteError(error) ? 'The store cannot be read.' : error.message
    log.error('ledger_damaged', { reason }, error)
    return { ...refuseAll(reason), isDamaged: true, close: () => store?.close() }
  }
}

function openOn(store: Store, settings: SignerConfig, log: Logger): RunningSigner {
  const { db, witnessPath } = store
  const now = Date.now
  const deks = openDeks({ db, kek: openKek(store, settings), now })
  const ledger = openLedger(store, deks.macs)
  const keys = openKeys({ db, deks, now })
  const { jwksFile, issuer, audience, limits, maxTokenSeconds, revocationsSeconds: maxAgeSeconds } = settings
  if (!settings.isDevelopment) assertAnchored(settings.folder)
  const tokenKeys = openKeyFile(settings.isDevelopment ? jwksFile! : anchorOf(settings.folder), log, now)
  const unattended = openUnattendedFees({
    maxWei: limits.maxUnattendedFeeWei,
    earlier: ledger.unattendedSince(now() - HOUR_MS),
    now,
  })
  let witnessed = ledger.head()
  const witness = openWitness(witnessPath, witnessed)

  const meters = openMeters(db)
  const group = openGroup({
    db,
    committing: meters.write,
    committed() {
      if (ledger.head() === witnessed) return
      witnessed = ledger.head()
      witness.write(witnessed)
    },
    fatal(error) {
      log.error('store_failed', {}, error)
      process.exit(1)
    },
  })
  const rotation = openRotation({ db, keys, group, log, nextKek: nextKekOf(settings) })
  const freezes = openFreezes({ db, group, log, now })
  const { policyFile, folder, isDevelopment } = settings
  const policy = openPolicyInForce({ db, group, file: policyFile, folder, isDevelopment, log })
  const revocations = openRevocations({ keys: tokenKeys, issuer, maxAgeSeconds, log, freezes })
  const tokens = openTokens({ keys: tokenKeys, revocations, issuer, audience, maxSeconds: maxTokenSeconds })
  const inside: Inside = {
    ...{ keys, tokens, ledger, group, limits, unattended, now },
    freezes: withPolicyFreezes(freezes, policy),
    ...{ policy, meters },
  }
  return {
    handlers: {
      createAccount: (request) => createAccount(inside, request),
      sign: (request) => sign(inside, request),
      check: (request) => check(inside, request),
      recall: (request) => recall(ledger, request),
      recallSince: (request) => recallSince(ledger, request),
      wrapped: (request) => wrappedPage(keys, request),
      revocations: (request) => revocations.take(request),
      health: async () => ({
        ok: true,
        accounts: keys.count(),
        ledgerEntries: ledger.head().count,
        revocations: await revocations.state(),
        chains: limits.chains === null ? null : [...limits.chains],
        tokenKeys: tokenKeys.fingerprints(),
        policy: policy.health(),
        maxTokenSeconds,
      }),
    },
    admin: {
      freeze: async (request) => {
        const { subject } = readFreezeRequest(request)
        // A misspelt name would be frozen, and nobody with it.
        if (subject.startsWith('user ') && keys.ofUser(subject.slice('user '.length)) === null)
          throw new Refusal('bad_request', 'The signer has no account of this user: `chatelaine account freeze` knows other names of theirs.') // prettier-ignore
        return freezes.freeze(subject)
      },
      unfreeze: async (request) => freezes.unfreeze(readFreezeRequest(request).subject),
      frozen: () => freezes.list(),
      rotateKek: () => rotation.rotateKek(),
      rotateDek: () => rotation.rotateDek(),
      rotation: () => rotation.state(),
    },
    isDamaged: false,
    close() {
      policy.close()
      witness.close()
      store.close()
    },
  }
}

/** The master key that opens the store: after `rotate-kek` the next one, until the settings say so. */
function openKek({ db }: Store, { kekFile, kekNextFile, isDevelopment }: SignerConfig): Kek {
  const dataKey = db.prepare('SELECT epoch, wrapped, maced_from FROM deks ORDER BY epoch LIMIT 1').get()
  // Beside a store that holds keys a new master key would only hide that the right one is missing.
  if (dataKey === undefined && isDevelopment) makeKekFile(kekFile)
  if (dataKey !== undefined && kekNextFile !== undefined && existsSync(kekNextFile)) {
    const next = openKekFile(kekNextFile)
    if (opens(next, dataKey as Parameters<typeof openDek>[0])) return next
  }
  return openKekFile(kekFile)
}

function opens(kek: Kek, dataKey: Parameters<typeof openDek>[0]): boolean {
  try {
    openDek(dataKey, kek)
    return true
  } catch {
    return false
  }
}

const nextKekOf = ({ kekNextFile: file }: SignerConfig): (() => Kek) | null =>
  file === undefined
    ? null
    : () => {
        makeKekFile(file)
        return openKekFile(file)
      }

function refuseAll(reason: string): { handlers: Handlers; admin: AdminHandlers } {
  const refuse = () => {
    throw new Refusal('ledger_damaged', `${reason} The signer signs nothing until the store is restored.`)
  }
  return {
    handlers: {
      createAccount: refuse,
      sign: refuse,
      check: refuse,
      recall: refuse,
      recallSince: refuse,
      wrapped: refuse,
      revocations: refuse,
      health: refuse,
    },
    admin: { freeze: refuse, unfreeze: refuse, frozen: refuse, rotateKek: refuse, rotateDek: refuse, rotation: refuse },
  }
}

/** Of the signer's own user alone. A folder too deep for a socket in it keeps nobody from signing: that is logged. */
async function listenForAdmin({ adminSocket, folder }: SignerConfig, handlers: AdminHandlers, log: Logger) {
  const path = adminSocket ?? adminSocketIn(folder)
  if (adminSocket === null && Buffer.byteLength(path) > MAX_SOCKET_PATH) {
    log.warn('admin_socket_absent', { hint: 'set SIGNER_ADMIN_SOCKET to a shorter path' })
    return null
  }
  return listen({ path, setting: 'SIGNER_ADMIN_SOCKET', mode: 0o600, handlers, log })
}

function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => resolve())
    process.once('SIGINT', () => resolve())
    if (process.argv.includes('--with-parent')) {
      process.stdin.once('end', () => resolve())
      process.stdin.once('close', () => resolve())
      process.stdin.once('error', () => resolve())
      process.stdin.resume()
    }
  })
}

main().catch((error: unknown) => {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.name})` : ''
  const isExpected = error instanceof ConfigError || error instanceof StartError
  process.stderr.write(isExpected ? `${error.message}${cause}\n` : `The signer failed to start: ${String(error)}\n`)
  process.exit(1)
})
