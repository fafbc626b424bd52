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

/** The copy that is sealed, while it is: in the store's own folder, where nobody else may look. */
const DRAFT = 'backup-draft'
const LOCK = 'backup-lock'
/** All pages in one step: one state of the store, and no start over when the signer commits meanwhile. */
const ALL_PAGES = 2 ** 31 - 1

/** What lies beside a backup, in `FILE.json`: its manifest, and what the file is recognised by. */
export type BackupRecord = Manifest & { bytes: number; sha256: string }

/**
 * Copies the store beside a running signer, which keeps signing, and seals the copy to recipients. Never the master key:
 * without it nothing in the file opens.
 * @param kekFiles  where the master key lies; the target must be apart from them
 * @throws StartError     when the target holds the store or its master key, or nothing is in the ledger yet
 * @throws LedgerDamaged  when the copy does not end at its signed head
 * @throws ArchiveError   when there is a file already
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
  if (!existsSync(join(folder, DATABASE_FILE))) throw new StartError('There is no store in SIGNER_DIR.')
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

/** Makes one file of the copy, and looks at its end: a backup of a store that cannot be restored would be found out too late. */
function readCopy(path: string, at: number): Manifest {
  const db = new DatabaseSync(path)
  try {
    db.exec('PRAGMA journal_mode = DELETE')
    const manifest = manifestOf(db, at)
    if (manifest.records === 0) throw new StartError('The ledger is empty: there is nothing to back up yet.')
    const fault = headFault(db, { count: manifest.records, record: Buffer.from(manifest.record, 'hex') })
    if (fault !== null) throw new LedgerDamaged(`${fault} Nothing was written: chatelaine signer verify says more.`)
    return manifest
  } finally {
    db.close()
  }
}

/** Two at once would take each other's draft. */
function lockBackup(folder: string): () => void {
  try {
    return lockFolder(folder, LOCK)
  } catch (error) {
    if (error instanceof FolderInUse) throw new StartError(`Another backup of this store is being made (process ${error.holder}).`) // prettier-ignore
    throw new StartError('The store cannot be locked for a backup: run this as the user of the signer.', error)
  }
}

/** Who gets hold of a place must not find in it both what is wrapped and what opens it. @throws StartError */
export function assertApart(to: string, folder: string, kekFiles: string[]): void {
  const target = realOf(dirname(resolve(to)))
  if (target === null) throw new StartError('The folder of --to is missing.')
  if (isInside(realOf(folder) ?? resolve(folder), target))
    throw new StartError('--to must not be inside SIGNER_DIR: the backup would be lost with the store.')
  const keks = kekFiles.map((file) => realOf(file) ?? resolve(file))
  if (keks.some((file) => isInside(target, file)))
    throw new StartError('The master key (KEK) lies in the folder of --to: who has one would have both. Choose another place.') // prettier-ignore
  const copy = findCopy(target, keks)
  if (copy !== null)
    throw new StartError(`A copy of the master key (KEK) lies in the folder of --to: ${basename(copy)}. Keep them apart.`) // prettier-ignore
}

function realOf(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/** A file of a folder that has the bytes of a master key. */
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
    // Who may not read the one cannot have copied it from here.
    return false
  } finally {
    for (const bytes of read) bytes.fill(0)
  }
}

const USAGE = 'Usage: backup --to FILE --recipient age1… [--recipient age1…]'

/** `chatelaine signer backup`: beside a running signer. */
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
  print(`What is in it says ${values.to}.json. The master key (KEK) is not: keep copies of it elsewhere.`)
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  main().catch((error: unknown) => {
    process.stderr.write(`${sayFault(error, USAGE)}\n`)
    process.exitCode = 1
  })
}
