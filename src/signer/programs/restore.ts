import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, writeSync } from 'node:fs' // prettier-ignore
import type { KeyObject } from 'node:crypto'
import { join } from 'node:path'
import { readArguments } from './arguments.ts'
import { readIdentities } from '../../backup/age.ts'
import { readArchive } from '../../backup/archive.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { sayFault } from './backup-fault.ts'
import { readMacs, unwrapStored } from '../keys/deks.ts'
import { identityFault } from '../keys/identity.ts'
import { readKekSettings } from '../keys/kek-settings.ts'
import { syncFolder } from '../kek/file.ts'
import { openKekOf, type KekSettings } from '../keys/open-kek.ts'
import { differences, MANIFEST_FILE, manifestOf, readManifest, type Manifest } from './manifest.ts'
import { readOwnFile } from './own-file.ts'
import { StartError } from '../refusal.ts'
import { DATABASE_FILE, LOCK_FILE, makeFolder, openStoreForReading, takeLock } from '../store.ts'
import { KEYS_MISSING, verifyLedger } from './verify.ts'

export type RestoredStore = {
  manifest: Manifest
  signatures: number
  /** records whose MAC was verified; null if there was no master key */
  macs: number | null
  /** accounts of the ledger whose keys the copy lacks: run `restore-keys` */
  warnings: string[]
}

/** The folder where the copy is unpacked and verified. */
const DRAFT = 'restore-draft'
const MAX_MANIFEST_BYTES = 65_536
/** Names that an empty folder may contain. */
const NOTHING = [DRAFT, LOCK_FILE, `${LOCK_FILE}.holder`, `${LOCK_FILE}-journal`, 'lost+found']

/**
 * Unpacks a backup into a folder without a store, verifies all of it, and then moves it into place. The result has no witness, so
 * the signer refuses to sign until `accept-restore` has asked the chains.
 * @param settings  the master key; null: MACs and the identity key are not verified, and anyone who knows a recipient may have
 * written the file
 * @throws StartError  if the folder is not empty, or the file is damaged or not a backup
 * @throws AgeError, ArchiveError
 */
export async function restoreStore({
  file,
  identities,
  folder,
  settings,
}: {
  file: string
  identities: KeyObject[]
  folder: string
  settings: KekSettings | null
}): Promise<RestoredStore> {
  makeFolder(folder)
  assertEmpty(folder)
  const unlock = takeLock(folder)
  const draft = join(folder, DRAFT)
  try {
    rmSync(draft, { recursive: true, force: true })
    mkdirSync(draft, { mode: 0o700 })
    const said = await unpackTo(draft, file, identities)
    const restored = await checkCopy(draft, said, settings)
    // Check again: another process may have created a store in between, which must remain.
    assertEmpty(folder)
    renameSync(join(draft, DATABASE_FILE), join(folder, DATABASE_FILE))
    syncFolder(folder)
    return restored
  } finally {
    rmSync(draft, { recursive: true, force: true })
    unlock()
  }
}

/** Checks that the folder is empty. @throws StartError */
function assertEmpty(folder: string): void {
  const found = readdirSync(folder).filter((name) => !NOTHING.includes(name))
  if (found.length > 0)
    throw new StartError(`SIGNER_DIR is not empty (${found.slice(0, 3).join(', ')}): a backup is restored into an empty folder only.`) // prettier-ignore
}

async function unpackTo(folder: string, file: string, identities: KeyObject[]): Promise<Manifest> {
  let manifest: Manifest | null = null
  let isStored = false
  for await (const { name, size, data } of readArchive(file, identities)) {
    if (name === MANIFEST_FILE && size <= MAX_MANIFEST_BYTES) {
      const pieces: Uint8Array[] = []
      for await (const piece of data) pieces.push(piece)
      manifest = readManifest(Buffer.concat(pieces).toString('utf8'))
    } else if (name === DATABASE_FILE && manifest !== null && !isStored) {
      await writeTo(join(folder, DATABASE_FILE), data)
      isStored = true
    } else throw new StartError('The file is not a signer backup, or a newer version wrote it.')
  }
  if (manifest === null || !isStored) throw new StartError('The file is not a signer backup, or a newer version wrote it.') // prettier-ignore
  return manifest
}

async function writeTo(path: string, data: AsyncIterable<Uint8Array>): Promise<void> {
  const fd = openSync(path, 'wx', 0o600)
  try {
    for await (const piece of data) for (let at = 0; at < piece.length;) at += writeSync(fd, piece, at)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

async function checkCopy(folder: string, said: Manifest, settings: KekSettings | null): Promise<RestoredStore> {
  const { db } = openStoreForReading(folder)
  try {
    const found = manifestOf(db, 0)
    const wrong = differences(said, found)
    if (wrong.length > 0) throw new StartError(`The store in the backup does not match its manifest: ${wrong.join(', ')}.`) // prettier-ignore
    const opened = settings === null ? null : await unwrapStored(db, await openKekOf(db, settings))
    const { problems, signatures, macs } = verifyLedger(db, opened === null ? null : readMacs(opened))
    const foreign = opened === null ? null : identityFault(db, opened)
    const faults = [...problems.filter((one) => !one.startsWith(KEYS_MISSING)), ...(foreign === null ? [] : [foreign])]
    if (faults.length > 0)
      throw new StartError(`The store in the backup is damaged. Nothing was restored.\n${faults.join('\n')}`)
    return { manifest: said, signatures, macs, warnings: problems.filter((one) => one.startsWith(KEYS_MISSING)) }
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ERR_SQLITE_ERROR') throw new StartError('The store in the backup cannot be read.', error) // prettier-ignore
    throw error
  } finally {
    db.close()
  }
}

/** Reads the keys that decrypt a backup. @throws StartError  if the file is missing or readable by others @throws AgeError */
export const readIdentityFile = (path: string): KeyObject[] =>
  readIdentities(readOwnFile(path, { name: 'identity file', option: '--identity' }).toString('utf8'))

const USAGE = 'Usage: restore FILE --identity FILE'

/** Runs `chatelaine signer restore FILE --identity FILE`: restores into SIGNER_DIR, which must be empty or missing. */
async function main(): Promise<void> {
  const { values, positionals } = readArguments({
    allowPositionals: true,
    options: { identity: { type: 'string', multiple: true, default: [] } },
  })
  const config = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const { SIGNER_DIR: folder } = config
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the folder to restore into'])
  if (positionals.length !== 1 || values.identity.length === 0) throw new ConfigError([USAGE])
  process.umask(0o077)
  const settings = readKekSettings(config)
  const identities = values.identity.flatMap(readIdentityFile)
  const { manifest, signatures, macs, warnings } = await restoreStore({ file: positionals[0]!, identities, folder, settings }) // prettier-ignore
  const { accounts, records, at } = manifest
  for (const warning of warnings) print(warning)
  print(
    macs === null
      ? 'MACs and the identity key were not checked, because SIGNER_KEK_FILE or SIGNER_KEK is missing. Anyone who knows a recipient could have written this file.'
      : `MACs of ${macs} records and the identity key were checked.`,
  )
  print(`Restored: ${accounts} accounts, ${records} records, ${signatures} signatures, as of ${at}.`)
  print('The signer does not sign yet: later signatures and accounts are missing. Run in this order:')
  print('  chatelaine signer restore-keys FILE     later accounts; FILE is from chatelaine account export-keys')
  print('  chatelaine signer accept-restore --rpc-url …     later nonces, for every network')
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  main().catch((error: unknown) => {
    process.stderr.write(`${sayFault(error, USAGE)}\n`)
    process.exitCode = 1
  })
}
