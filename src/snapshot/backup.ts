/**
 * snapshot: backup and restore of the server: all rows of one moment, and the server’s files.
 * Owns: the list of tables and files, checks that a backup is complete and consistent, restoring into an empty
 * database,
 *   entirely or not at all, and the restore test.
 * Does not own: the file as such (`backup/`), the signer's store (`signer/programs/backup.ts`).
 * Tables: reads all of them; writes into a database that nobody uses yet.
 */

import { createHash, type Hash, type KeyObject } from 'node:crypto'
import { open, rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip, type InputType, type ZlibOptions } from 'node:zlib'
import { writeArchive } from '../backup/archive.ts'
import type { PackedFile } from '../backup/tar.ts'
import { withCopySession, type CopySession, type DatabasePlace, type TableColumns } from '../store/copy.ts'
import { BackupError } from './fault.ts'
import { sha256Of, type SnapshotFile } from './files.ts'
import { FORMAT, MANIFEST_NAME, pieceName, TOTALS_NAME, VERSION, type SnapshotManifest, type SnapshotRecord, type SnapshotTotals } from './manifest.ts' // prettier-ignore
import { assertAsItWas, readTables } from './tables.ts'

const compress = promisify<InputType, ZlibOptions, Buffer>(gzip)
/** gzip level; random hexadecimal digits shrink to half at any level */
const LEVEL = 1

/**
 * Copies one consistent state of the database, while servers continue to write, and encrypts it and the files to
 * recipients. Writers do not wait for it; a migration does.
 * @param program  version of this program
 * @param now      milliseconds since 1970
 * @throws BackupError, ArchiveError
 * @throws errors of database and system, which `sayFault` explains
 */
export async function backupDatabase(
  place: DatabasePlace,
  {
    to,
    recipients,
    files,
    program,
    now,
  }: { to: string; recipients: KeyObject[]; files: SnapshotFile[]; program: string; now: () => number },
): Promise<SnapshotRecord> {
  return withCopySession(place, 'snapshot', async (session) => {
    const at = now()
    const manifest = await readWhatIsThere(session, { program, at: new Date(at).toISOString() })
    const totals: SnapshotTotals = { tables: {}, files: {} }
    const written = await writeArchive(to, { recipients, files: packed(session, manifest, { totals, files }), at })
    const { tables, migrations, ...said } = manifest
    const record: SnapshotRecord = {
      ...said,
      migration: migrations.at(-1)?.number ?? 0,
      rows: Object.fromEntries(tables.map(({ name }) => [name, totals.tables[name]!.rows])),
      files: files.map(({ name }) => name),
      ...written,
    }
    await writeBeside(to, record)
    return record
  })
}

/**
 * Writes the record beside the backup. If that fails, deletes both, because a backup without its record is incomplete.
 */
async function writeBeside(to: string, record: SnapshotRecord): Promise<void> {
  const path = `${to}.json`
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(`${JSON.stringify(record, null, 2)}\n`)
    await handle.sync()
  } catch (error) {
    await Promise.all([rm(path, { force: true }), rm(to, { force: true })])
    throw error
  } finally {
    await handle.close()
  }
}

async function readWhatIsThere(
  session: CopySession,
  { program, at }: { program: string; at: string },
): Promise<SnapshotManifest> {
  const [there] = await session.query<{ isOurs: boolean }>(`select to_regclass('migrations') is not null as "isOurs"`)
  if (!there!.isOurs) throw new BackupError('There is no installation in this database.')
  const migrations = await session.query<SnapshotManifest['migrations'][number]>(
    'select number, name, sha256 from migrations order by number',
  )
  const tables = await readTables(session)
  const head = await readHead(session)
  return { format: FORMAT, version: VERSION, at, program, migrations, tables, head }
}

async function readHead({ query }: CopySession): Promise<SnapshotManifest['head']> {
  const [head] = await query<Omit<NonNullable<SnapshotManifest['head']>, 'size'> & { size: string }>(
    `select origin, size::text as size, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, note from signing_log_head`,
  )
  return head === undefined ? null : { ...head, size: Number(head.size) }
}

async function* packed(
  session: CopySession,
  manifest: SnapshotManifest,
  { totals, files }: { totals: SnapshotTotals; files: SnapshotFile[] },
): AsyncGenerator<PackedFile> {
  yield packedText(MANIFEST_NAME, manifest)
  for (const table of manifest.tables) yield* packedTable(session, table, totals)
  for (const { name, content } of files) {
    totals.files[name] = { bytes: content.length, sha256: sha256Of(content) }
    yield packedBytes(`files/${name}`, content)
  }
  yield packedText(TOTALS_NAME, totals)
}

/** Compresses a piece while the database sends the next one. */
async function* packedTable(
  session: CopySession,
  table: TableColumns,
  totals: SnapshotTotals,
): AsyncGenerator<PackedFile> {
  const digest = createHash('sha256')
  let bytes = 0
  let number = 0
  let waiting: Promise<Buffer> | null = null
  const rows = session.copyOut(table)
  for (;;) {
    const next = await rows.next()
    if (waiting !== null) yield packedBytes(pieceName(table.name, ++number), await waiting)
    if (next.done === true) {
      await assertAsItWas(session, table)
      totals.tables[table.name] = { rows: next.value, bytes, sha256: hexOf(digest) }
      return
    }
    digest.update(next.value)
    bytes += next.value.length
    waiting = compress(next.value, { level: LEVEL })
    // This prevents an unhandled rejection if the generator ends before `waiting` is awaited; another error is thrown
    // then.
    waiting.catch(() => {})
  }
}

const hexOf = (digest: Hash): string => digest.digest('hex')
const packedText = (name: string, value: unknown): PackedFile =>
  packedBytes(name, Buffer.from(`${JSON.stringify(value, null, 2)}\n`, 'utf8'))
const packedBytes = (name: string, content: Buffer): PackedFile => ({ name, size: content.length, data: once(content) })

async function* once(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
