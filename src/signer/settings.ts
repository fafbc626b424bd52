import { ConfigError, configKeys, readConfig, type Config, type ConfigKey } from '../config.ts'
import { isInside } from './kek/file.ts'
import { requireKekSettings } from './keys/kek-settings.ts'
import type { KekSettings } from './keys/open-kek.ts'
import type { PolicyLimits } from './rules/policy.ts'
import { MAX_DEADLINE_SECONDS } from '../signer-wire/wire.ts'

/** The signer's settings, parsed. */
export type SignerConfig = KekSettings & {
  socket: string
  /** permissions of the socket */
  socketMode: number
  /** null: `socket` also serves the authorization server's verbs */
  authSocket: string | null
  /** null: a socket beside the store */
  adminSocket: string | null
  folder: string
  /** the key file of the authorization server; its keys are trusted in development only */
  jwksFile: string | undefined
  issuer: string
  audience: string
  limits: PolicyLimits
  maxTokenSeconds: number
  policyFile: string | undefined
  /** seconds between the request for a key and its export; null: no export */
  exportDelaySeconds: number | null
  /** true: the signer's own OS user may export all keys, encrypted to a recipient */
  isGivingAll: boolean
  /** maximum age of a list of revocations, seconds; 0: lists are not used */
  revocationsSeconds: number
  logLevel: Config['LOG_LEVEL']
  isDevelopment: boolean
}

const REQUIRED = ['SIGNER_SOCKET', 'SIGNER_DIR', 'SIGNER_ISSUER', 'SIGNER_AUDIENCE'] as const satisfies ConfigKey[]

/** The gas of a plain transfer at the highest price that a server signs by itself (FEE_CAP_GWEI). */
const FILL_FEE_WEI = 21_000n * 1_000n * 10n ** 9n

/** Half a day, so that a user who is asleep finds the notice before the key is exported. */
const MIN_EXPORT_DELAY_SECONDS = 43_200

/**
 * Reads the settings. The locations of keys and files have no defaults: the signer never guesses them.
 * @throws ConfigError  naming every problem
 */
export function readSettings(env: NodeJS.ProcessEnv, { isDevelopment }: { isDevelopment: boolean }): SignerConfig {
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
  if ((env.SIGNER_KEK_FILE ?? '') === '' && (env.SIGNER_KEK ?? '') === '')
    problems.push(`SIGNER_KEK_FILE is missing: ${configKeys.SIGNER_KEK_FILE.help}`)
  if (isDevelopment && (env.SIGNER_JWKS_FILE ?? '') === '')
    problems.push(`SIGNER_JWKS_FILE is missing: ${configKeys.SIGNER_JWKS_FILE.help}`)
  if (config === undefined || problems.length > 0) throw new ConfigError(problems)
  const settings = {
    socket: config.SIGNER_SOCKET!,
    socketMode: Number.parseInt(config.SIGNER_SOCKET_MODE, 8),
    authSocket: config.SIGNER_AUTH_SOCKET ?? null,
    folder: config.SIGNER_DIR!,
    adminSocket: config.SIGNER_ADMIN_SOCKET ?? null,
    ...requireKekSettings(config),
    jwksFile: config.SIGNER_JWKS_FILE,
    issuer: config.SIGNER_ISSUER!,
    audience: config.SIGNER_AUDIENCE!,
    limits: {
      maxFeeWei: config.SIGNER_MAX_FEE_WEI ?? 10n ** 18n,
      maxFillFeeWei: config.SIGNER_MAX_FILL_FEE_WEI ?? FILL_FEE_WEI,
      maxFills: config.SIGNER_MAX_FILLS,
      maxRaise: BigInt(config.SIGNER_MAX_RAISE),
      maxUnattendedFeeWei: config.SIGNER_MAX_UNATTENDED_FEE_WEI ?? 10n ** 20n,
      // In production, nothing is paid for users until the operator sets the limits.
      topUpPerUserWei: config.SIGNER_TOPUP_PER_USER_WEI ?? (isDevelopment ? 10n ** 18n : 0n),
      topUpPerSponsorWei: config.SIGNER_TOPUP_PER_SPONSOR_WEI ?? (isDevelopment ? 10n ** 21n : 0n),
      gasPerUserWei: config.SIGNER_GAS_PER_USER_WEI ?? (isDevelopment ? 10n ** 18n : 0n),
      gasPerSponsorWei: config.SIGNER_GAS_PER_SPONSOR_WEI ?? (isDevelopment ? 10n ** 21n : 0n),
      signsCalibur: config.SIGNER_CALIBUR === 'on',
      maxDeadlineSeconds: isDevelopment ? Number.POSITIVE_INFINITY : MAX_DEADLINE_SECONDS,
      chains: config.SIGNER_CHAINS === undefined ? null : new Set(config.SIGNER_CHAINS),
    },
    maxTokenSeconds: config.SIGNER_MAX_TOKEN_SECONDS,
    policyFile: config.SIGNER_POLICY_FILE,
    exportDelaySeconds: config.SIGNER_EXPORT === 'on' ? config.SIGNER_EXPORT_DELAY_SECONDS : null,
    isGivingAll: config.SIGNER_EXPORT_ALL === 'on',
    revocationsSeconds: config.SIGNER_REVOCATIONS_SECONDS,
    logLevel: config.LOG_LEVEL,
    isDevelopment,
  }
  if (!settings.isDevelopment && settings.limits.chains === null)
    throw new ConfigError([`SIGNER_CHAINS is missing: ${configKeys.SIGNER_CHAINS.help}`])
  if (settings.isDevelopment && config.NODE_ENV === 'production')
    throw new ConfigError(['NODE_ENV is production, which contradicts --development: remove one of them'])
  if (settings.authSocket === settings.socket)
    throw new ConfigError(['SIGNER_AUTH_SOCKET must be another socket than SIGNER_SOCKET'])
  for (const [key, setting] of [
    [config.SIGNER_KEK === undefined ? 'SIGNER_KEK_FILE' : 'SIGNER_KEK', settings.kek],
    [config.SIGNER_KEK_NEXT === undefined ? 'SIGNER_KEK_NEXT_FILE' : 'SIGNER_KEK_NEXT', settings.kekNext],
  ] as const)
    if (!settings.isDevelopment && setting?.provider === 'file' && isInside(settings.folder, setting.file))
      throw new ConfigError([`${key} must not be inside SIGNER_DIR: a backup of one would contain both`])
  if (!settings.isDevelopment) assertNames(settings)
  if (!settings.isDevelopment && config.SIGNER_EXPORT_DELAY_SECONDS < MIN_EXPORT_DELAY_SECONDS)
    throw new ConfigError([`SIGNER_EXPORT_DELAY_SECONDS must be at least ${MIN_EXPORT_DELAY_SECONDS} in production`])
  if (!settings.isDevelopment && settings.revocationsSeconds === 0) {
    throw new ConfigError(['SIGNER_REVOCATIONS_SECONDS cannot be 0 in production: revoked tokens would still sign'])
  }
  return settings
}

/**
 * Checks the names: the issuer is on the authorization server's origin, the audience on the API's. They are two origins if and only
 * if the signer has a separate socket for the authorization server.
 * @throws ConfigError
 */
function assertNames({ issuer, audience, authSocket }: Pick<SignerConfig, 'issuer' | 'audience' | 'authSocket'>): void {
  const originOf = (name: string, path: string): string | null =>
    URL.canParse(name) && name === new URL(name).origin + path ? new URL(name).origin : null
  const [auth, api] = [originOf(issuer, '/oauth'), originOf(audience, '/v1')]
  const isOne = auth !== null && auth === api
  if (auth !== null && api !== null && isOne === (authSocket === null)) return
  throw new ConfigError([
    authSocket === null
      ? 'SIGNER_ISSUER and SIGNER_AUDIENCE must be PUBLIC_ORIGIN/oauth and PUBLIC_ORIGIN/v1 of one PUBLIC_ORIGIN: otherwise no token is accepted'
      : 'SIGNER_ISSUER and SIGNER_AUDIENCE must be AUTH_ORIGIN/oauth and PUBLIC_ORIGIN/v1, two origins, if SIGNER_AUTH_SOCKET is set: otherwise no token is accepted',
  ])
}
