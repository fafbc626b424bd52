import { createHash } from 'node:crypto'
import { closeSync, existsSync, fstatSync, fsyncSync, mkdirSync, openSync, readdirSync, readFileSync, realpathSync, statSync, writeSync } from 'node:fs' // prettier-ignore
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path'
import { configKeys, type ConfigKey } from '../config.ts'
import { whoElseReads } from '../secret-file.ts'
import { BackupError } from './fault.ts'

export type SnapshotFile = { name: string; content: Buffer }

/** Settings of files that exist only on this server, and the files' names in a backup. */
export const FILES = {
  AUTH_KEYS_FILE: 'auth-keys.json',
  AUTH_JWKS_FILE: 'auth-keys.public.json',
  PROVIDERS_FILE: 'providers.json',
  NETWORKS_FILE: 'networks.json',
  OPERATOR_TOKEN_FILE: 'operators',
  BRAND_LOGO_FILE: 'brand-logo',
  KNOWN_TOKENS_FILE: 'known-tokens.json',
} as const
type FileSetting = keyof typeof FILES

/** Other paths in settings of the server, and why they are not backed up. */
export const NOT_FILES: Readonly<Record<string, string>> = {
  DATA_DIR:
    'of production networks.json alone lies there, which is NETWORKS_FILE; in development the database, and copies of it',
  SIGNER_SOCKET: 'the signer makes it',
  SIGNER_AUTH_SOCKET: 'the signer makes it',
  AUTH_SOCKET: 'the authorization server makes it',
}

const SETTINGS_NAME = 'settings.env'
/** Files that entries of PROVIDERS_FILE name, as `provider-1-NAME`. */
const OF_PROVIDER = /^provider-\d{1,3}-[\w.-]{1,60}$/
/** Maximum size that a restore accepts; a list of tokens has 150 bytes per token. */
const MAX_FILE_BYTES = 4_194_304
/** Size of a master key (KEK) file: 32 random bytes. */
const KEK_BYTES = 32
/** Settings of files without which a server in production does not start. */
const REQUIRED: readonly FileSetting[] = ['AUTH_KEYS_FILE', 'PROVIDERS_FILE']

/** Returns whether a name in an archive is one of ours. No other file is written. */
export const isFileName = (name: string): boolean =>
  name === SETTINGS_NAME || (Object.values(FILES) as string[]).includes(name) || OF_PROVIDER.test(name)

/**
 * Collects the files of this server and its settings. Excludes the database URL, because its password belongs to the
 * lost machine, and all files of the signer.
 * @param env      the settings, as in the environment
 * @param dataDir  folder of files that no setting names
 * @throws BackupError  if a named file cannot be read, or has the length of a master key
 */
export function collectFiles(env: Record<string, string | undefined>, dataDir: string): SnapshotFile[] {
  const isProduction = env.NODE_ENV === 'production'
  const named = (setting: FileSetting) => (env[setting] === '' ? undefined : env[setting])
  const keysFile = named('AUTH_KEYS_FILE') ?? join(dataDir, FILES.AUTH_KEYS_FILE)
  const otherwise: Partial<Record<FileSetting, string>> = {
    AUTH_KEYS_FILE: keysFile,
    AUTH_JWKS_FILE: `${keysFile.replace(/\.json$/, '')}.public.json`,
    NETWORKS_FILE: join(dataDir, FILES.NETWORKS_FILE),
  }
  const files = (Object.keys(FILES) as FileSetting[]).flatMap((setting) => {
    const path = named(setting) ?? otherwise[setting]
    // NETWORKS_FILE may not exist before the first network is added.
    const mayLack = named(setting) === undefined || setting === 'NETWORKS_FILE' || setting === 'AUTH_JWKS_FILE'
    const content = path === undefined ? null : readContent(path, setting, mayLack)
    if (content !== null) return [{ name: FILES[setting], content }]
    if (isProduction && REQUIRED.includes(setting))
      throw new BackupError(`${setting} is missing. Run this as the server’s user, with the server’s settings, or add --without-files.`) // prettier-ignore
    return []
  })
  return [...files, ...filesOfProviders(files, named('PROVIDERS_FILE')), { name: SETTINGS_NAME, content: Buffer.from(settingsOf(env)) }] // prettier-ignore
}

function readContent(path: string, setting: string, mayLack: boolean): Buffer | null {
  let content: Buffer
  try {
    if (statSync(path).size > MAX_FILE_BYTES) throw new BackupError(`${setting} names a file of more than 4 MiB.`)
    content = readFileSync(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && mayLack) return null
    if (error instanceof BackupError) throw error
    throw new BackupError(`${setting} cannot be read (${code}).`)
  }
  if (content.length === KEK_BYTES)
    throw new BackupError(`${setting} names a file of ${KEK_BYTES} bytes, the size of a master key (KEK). A backup never includes a master key.`) // prettier-ignore
  return content
}

/** Collects the secrets of providers that are stored in separate files, which may be in any folder. */
function filesOfProviders(files: SnapshotFile[], listPath: string | undefined): SnapshotFile[] {
  const list = files.find(({ name }) => name === FILES.PROVIDERS_FILE)
  if (list === undefined || listPath === undefined) return []
  let parsed: unknown
  try {
    parsed = JSON.parse(list.content.toString('utf8'))
  } catch {
    throw new BackupError('PROVIDERS_FILE does not hold JSON.')
  }
  const entries: unknown[] = Array.isArray(parsed) ? parsed : []
  const paths = entries.flatMap(
    (one) =>
    Object.entries(one ?? {}).flatMap(([key, value]) => (key.endsWith('File') && typeof value === 'string' ? [value] : [])), // prettier-ignore
  )
  return [...new Set(paths)].map((path, index) => ({
    name: `provider-${index + 1}-${basename(path).replaceAll(/[^\w.-]/g, '_').slice(0, 60)}`, // prettier-ignore
    content: readContent(resolve(dirname(listPath), path), 'A file that PROVIDERS_FILE', false)!,
  }))
}

/** Writes settings as lines for a shell, or for systemd's EnvironmentFile. */
function settingsOf(env: Record<string, string | undefined>): string {
  const names = (Object.keys(configKeys) as ConfigKey[]).filter(
    (name) => configKeys[name].part !== 'signer' && name !== 'DATABASE_URL' && (env[name] ?? '') !== '',
  )
  return names.map((name) => `${name}='${env[name]!.replaceAll("'", `'\\''`)}'\n`).join('')
}

/** Writes files into a new folder that only this user can read. @throws Error if the folder exists */
export function writeFiles(folder: string, files: SnapshotFile[]): void {
  mkdirSync(folder, { mode: 0o700 })
  for (const { name, content } of files) {
    const fd = openSync(join(folder, name), 'wx', 0o600)
    try {
      for (let at = 0; at < content.length;) at += writeSync(fd, content, at)
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
  }
}

/**
 * Checks the location of a new backup: not beside the master key, and not with the database that it backs up.
 * @param kekFiles  paths of the master key, if the settings of this program name any
 * @throws BackupError
 */
export function assertTarget(to: string, { inside, kekFiles }: { inside: string | null; kekFiles: string[] }): void {
  const target = realOf(dirname(resolve(to)))
  if (target === null) throw new BackupError('The folder of --to is missing.')
  for (const path of [to, `${to}.json`])
    if (existsSync(path)) throw new BackupError(`${path} already exists. A backup is never overwritten.`)
  if (inside !== null && isWithin(realOf(inside) ?? resolve(inside), target))
    throw new BackupError('--to must not be inside DATA_DIR: the backup would be lost with the database.')
  if (kekFiles.some((file) => isWithin(target, realOf(file) ?? resolve(file))))
    throw new BackupError('The master key (KEK) is in the folder of --to. Choose another folder: a thief of the folder would get both.') // prettier-ignore
  // The server may not know which file is the key. A key file is recognized by its length.
  const like = readdirSync(target, { withFileTypes: true }).find(
    (one) => one.isFile() && statSync(join(target, one.name)).size === KEK_BYTES,
  )
  if (like !== undefined)
    throw new BackupError(`The folder of --to has a file of ${KEK_BYTES} bytes, the size of a master key (KEK): ${like.name}. Store them in separate places.`) // prettier-ignore
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way === '' || (!way.startsWith('..') && !isAbsolute(way))
}

function realOf(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/** Reads an identity file. @throws BackupError if it is missing, or others can read it */
export function readIdentityText(path: string): string {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch {
    throw new BackupError('The identity file cannot be opened: --identity.')
  }
  try {
    const others = whoElseReads(fstatSync(fd))
    if (others !== null) throw new BackupError(`The identity file is readable by ${others}. Run chmod 600 on it.`)
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

export const sha256Of = (content: Buffer): string => createHash('sha256').update(content).digest('hex')
