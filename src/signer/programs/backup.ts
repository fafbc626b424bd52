import { createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs' // prettier-ignore
import type { KeyObject } from 'node:crypto'
import { basename, dirname, join, resolve } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { readArguments } from './arguments.ts'
import { readRecipient } from '../../backup/age.ts'
import { writeArchive } from '../../backup/archive.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { FolderInUse, lockFolder } from '../../folder-lock.ts'
import { readKekSettings } from '../keys/kek-settings.ts'
import { isInside } from '../kek/file.ts'
import { MANIFEST_FILE, manifestOf, type Manifest } from './manifest.ts'
import { sayFault } from './backup-fault.ts'
import { LedgerDamaged, StartError } from '../refusal.ts'
import { DATABASE_FILE, openStoreForReading } from '../store.ts'
import { headFault } from './verify.ts'
import { systemClock } from '../../clock.ts'

/** The folder of the unencrypted copy while the backup is made: inside the store's own folder, which no other OS user can read. */
const DRAFT = 'backup-draft'
const LOCK = 'backup-lock'
/** Copies all pages in one step, so that the copy is one state of the store and does not restart when the signer commits. */
const ALL_PAGES = 2 ** 31 - 1

/** The file `FILE.json` beside a backup: its manifest, and the size and hash of the backup. */
export type BackupRecord = Manifest & { bytes: number; sha256: string }

/**
 * Copies the store of a running signer, which continues to sign, and encrypts the copy to recipients. The master key is never
 * included, and without it nothing in the copy can be decrypted.
 * @param kekFiles  files of the master key, which the target folder must not contain
 * @throws StartError     if the target is inside the store's folder or holds its master key, or if the ledger is empty
 * @throws LedgerDamaged  if the copy does not end at its signed head
 * @throws ArchiveError   if the file already exists
 */
export async function backupStore({
  folder,
  to,
  recipients,
  kekFiles,
  now,
}: {
  folder: string
  to: string
  recipients: KeyObject[]
  kekFiles: string[]
  now: () => number
}): Promise<BackupRecord> {
  assertApart(to, folder, kekFiles)
  if (!existsSync(join(folder, DATABASE_FILE)))
    throw new StartError('There is no store in SIGNER_DIR. Nothing was written.')
  const unlock = lockBackup(folder)
  const draft = join(folder, DRAFT)
  try {
    rmSync(draft, { recursive: true, force: true })
    mkdirSync(draft, { mode: 0o700 })
    const at = now()
    const copy = join(draft, DATABASE_FILE)
    const source = openStoreForReading(folder).db
    await backup(source, copy, { rate: ALL_PAGES }).finally(() => source.close())
    const manifest = readCopy(copy, at)
    const text = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`, 'utf8')
    const files = [
      { name: MANIFEST_FILE, size: text.length, data: once(text) },
      { name: DATABASE_FILE, size: statSync(copy).size, data: readLate(copy) },
    ]
    const written = await writeArchive(to, { recipients, files, at })
    const record = { ...manifest, ...written }
    writeFileSync(`${to}.json`, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600, flush: true })
    return record
  } finally {
    rmSync(draft, { recursive: true, force: true })
    unlock()
  }
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

async function* readLate(path: string): AsyncGenerator<Buffer> {
  yield* createReadStream(path, { highWaterMark: 1_048_576 }) as AsyncIterable<Buffer>
}

/** Makes the copy a single file and verifies the end of its ledger, because a damaged backup would otherwise be noticed too late. */
function readCopy(path: string, at: number): Manifest {
  const db = new DatabaseSync(path)
  try {
    db.exec('PRAGMA journal_mode = DELETE')
    const manifest = manifestOf(db, at)
    if (manifest.records === 0) throw new StartError('The ledger is empty: there is nothing to back up yet.')
    const fault = headFault(db, { count: manifest.records, record: Buffer.from(manifest.record, 'hex') })
    if (fault !== null)
      throw new LedgerDamaged(`${fault} Nothing was written. For details, run chatelaine signer verify.`)
    return manifest
  } finally {
    db.close()
  }
}

/** Locks the folder for one backup at a time, because two would overwrite each other's draft. */
function lockBackup(folder: string): () => void {
  try {
    return lockFolder(folder, LOCK)
  } catch (error) {
    if (error instanceof FolderInUse) throw new StartError(`Another backup of this store is being made (process ${error.holder}).`) // prettier-ignore
    throw new StartError('The store cannot be locked for a backup. Run this as the signer’s user.', error)
  }
}

/** Checks that wrapped keys and the master key that opens them are not stored in one place. @throws StartError */
export function assertApart(to: string, folder: string, kekFiles: string[]): void {
  const target = realOf(dirname(resolve(to)))
  if (target === null) throw new StartError('The folder of --to is missing.')
  if (isInside(realOf(folder) ?? resolve(folder), target))
    throw new StartError('--to must not be inside SIGNER_DIR: the backup would be lost with the store.')
  const keks = kekFiles.map((file) => realOf(file) ?? resolve(file))
  if (keks.some((file) => isInside(target, file)))
    throw new StartError('The master key (KEK) is in the folder of --to. Choose another folder: a thief of the folder would get both.') // prettier-ignore
  const copy = findCopy(target, keks)
  if (copy !== null)
    throw new StartError(`A copy of the master key (KEK) is in the folder of --to: ${basename(copy)}. Store them in separate places.`) // prettier-ignore
}

function realOf(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/** Finds a file in a folder with the same bytes as a master key. */
function findCopy(target: string, keks: string[]): string | null {
  const sizes = new Map(keks.flatMap((file) => (sizeOf(file) === null ? [] : [[file, sizeOf(file)]])))
  for (const entry of readdirSync(target, { withFileTypes: true }).filter((one) => one.isFile())) {
    const path = join(target, entry.name)
    for (const [kek, size] of sizes) if (sizeOf(path) === size && isSame(path, kek)) return path
  }
  return null
}

function sizeOf(path: string): number | null {
  try {
    return statSync(path).size
  } catch {
    return null
  }
}

function isSame(path: string, kek: string): boolean {
  const read: Buffer[] = []
  try {
    for (const file of [path, kek]) read.push(readFileSync(file))
    return read[0]!.equals(read[1]!)
  } catch {
    // If this OS user cannot read the file, it was not copied from here.
    return false
  } finally {
    for (const bytes of read) bytes.fill(0)
  }
}

const USAGE = 'Usage: backup --to FILE --recipient age1… [--recipient age1…]'

/** Runs `chatelaine signer backup`, while the signer runs. */
async function main(): Promise<void> {
  const { values } = readArguments({
    options: { to: { type: 'string' }, recipient: { type: 'string', multiple: true, default: [] } },
  })
  const settings = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const { SIGNER_DIR: folder } = settings
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the folder of the store'])
  if (values.to === undefined || values.recipient.length === 0) throw new ConfigError([USAGE])
  process.umask(0o077)
  const keks = readKekSettings(settings)
  const record = await backupStore({
    folder,
    to: values.to,
    recipients: values.recipient.map(readRecipient),
    now: systemClock.wall,
    kekFiles: [keks?.kek, keks?.kekNext].flatMap((kek) => (kek?.provider === 'file' ? [kek.file] : [])),
  })
  const { accounts, records, bytes, at } = record
  print(`${values.to}: ${bytes} bytes, ${accounts} accounts, ${records} records, as of ${at}.`)
  print(`${values.to}.json lists the contents. The master key (KEK) is not included: store copies of it elsewhere.`)
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  main().catch((error: unknown) => {
    process.stderr.write(`${sayFault(error, USAGE)}\n`)
    process.exitCode = 1
  })
}
