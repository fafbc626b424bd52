import { createHash, type Hash, type KeyObject } from 'node:crypto'
import { existsSync, renameSync, rmSync } from 'node:fs'
import { promisify } from 'node:util'
import { gunzip, type InputType, type ZlibOptions } from 'node:zlib'
import { readArchive } from '../backup/archive.ts'
import type { PackedFile } from '../backup/tar.ts'
import { sqlState } from '../store/away.ts'
import { withCopySession, type CopySession, type DatabasePlace } from '../store/copy.ts'
import { migrateWithin, readMigrations, type Migration } from '../store/migrate.ts'
import { BackupError } from './fault.ts'
import { isFileName, sha256Of, writeFiles, type SnapshotFile } from './files.ts'
import { MANIFEST_NAME, planMigrations, readManifest, readPieceName, readTotals, TOTALS_NAME, type SnapshotManifest, type SnapshotTotals } from './manifest.ts' // prettier-ignore
import { dropIndexes, readTables } from './tables.ts'

export type RestoredSnapshot = {
  manifest: SnapshotManifest
  rows: Record<string, number>
  files: string[]
  /** names of newer migrations that were applied */
  migrated: string[]
}

const decompress = promisify<InputType, ZlibOptions, Buffer>(gunzip)
/** maximum bytes of a piece: a piece has some MiB, and the size of a request limits a row */
const MAX_PIECE_BYTES = 268_435_456
const MAX_TEXT_BYTES = 4_194_304
const MAX_FILES = 1_000

type Archive = AsyncGenerator<PackedFile>

/**
 * Restores a backup into a database without tables, in one transaction: either everything is restored and checked, or
 * nothing is. The original database is not needed. PostgreSQL and the embedded database can restore each other's
 * backups.
 * @param to          the folder of an embedded database must not exist
 * @param folder      for the files of the backup; must not exist. null: the files are skipped
 * @param migrations  of this program; others only in tests
 * @param look        inspects the restored database before it is committed; an error undoes the restore
 * @throws BackupError, AgeError, ArchiveError
 * @throws errors of database and system, which `sayFault` explains
 */
export async function restoreDatabase<T>(
  to: DatabasePlace,
  {
    file,
    identities,
    folder,
    migrations,
  }: { file: string; identities: KeyObject[]; folder: string | null; migrations?: readonly Migration[] },
  look: (session: CopySession) => Promise<T>,
): Promise<RestoredSnapshot & { seen: T }> {
  if (folder !== null && existsSync(folder)) throw new BackupError('The folder of --files already exists. Nothing is overwritten.') // prettier-ignore
  const archive = readArchive(file, identities)
  let placed: string | null = null
  try {
    const manifest = readManifest((await textOf((await archive.next()).value, MANIFEST_NAME)).toString('utf8'))
    const plan = planMigrations(manifest, migrations ?? (await readMigrations()))
    return await intoPlace(to, (place) =>
      withCopySession(place, 'write', async (session) => {
        const filled = await fill(session, manifest, { archive, plan })
        const seen = await look(session)
        // Write the files before the commit: a database without its files would look restored.
        if (folder !== null) placeFiles(folder, filled.files)
        placed = folder
        return { manifest, ...filled, files: filled.files.map(({ name }) => name), seen }
      }),
    )
  } catch (error) {
    if (placed !== null) rmSync(placed, { recursive: true, force: true })
    throw error
  } finally {
    await archive.return(undefined)
  }
}

/**
 * Restores an embedded database into a temporary folder, which is renamed at the end. PostgreSQL needs only its commit.
 */
async function intoPlace<T>(to: DatabasePlace, work: (place: DatabasePlace) => Promise<T>): Promise<T> {
  if (!('dir' in to)) return work(to)
  if (existsSync(to.dir)) throw new BackupError('An embedded database already exists. A backup can be restored only into an empty place.') // prettier-ignore
  const draft = `${to.dir}.partial`
  // Delete the remains of a restore that was killed.
  rmSync(draft, { recursive: true, force: true })
  try {
    const result = await work({ dir: draft })
    renameSync(draft, to.dir)
    return result
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

function placeFiles(folder: string, files: SnapshotFile[]): void {
  const draft = `${folder}.partial`
  rmSync(draft, { recursive: true, force: true })
  try {
    writeFiles(draft, files)
    renameSync(draft, folder)
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

type Filled = { rows: Record<string, number>; files: SnapshotFile[]; migrated: string[] }

async function fill(
  session: CopySession,
  manifest: SnapshotManifest,
  { archive, plan }: { archive: Archive; plan: { before: Migration[]; after: Migration[] } },
): Promise<Filled> {
  await assertEmpty(session)
  await migrateWithin(session.query, plan.before)
  await assertTables(session, manifest)
  const indexes = await dropIndexes(session)
  // Migrations insert rows, which the backup contains in their final form.
  for (const { name } of manifest.tables.toReversed()) await session.query(`delete from "${name}"`)
  // Triggers note changes, and restored rows are none.
  for (const { name } of manifest.tables) await session.query(`alter table "${name}" disable trigger user`)
  const { found, said, files } = await storeRows(session, manifest, archive)
  assertTotals(found, said)
  for (const { name } of manifest.tables) await assertCount(session, name, said.tables[name]!.rows)
  for (const definition of indexes) await session.query(definition)
  for (const { name } of manifest.tables) await session.query(`alter table "${name}" enable trigger user`)
  await continueNumbers(session)
  await migrateWithin(session.query, plan.after)
  for (const { name } of await readTables(session)) await session.query(`analyze "${name}"`)
  const rows = Object.fromEntries(Object.entries(found.tables).map(([name, { rows }]) => [name, rows]))
  return { rows, files, migrated: plan.after.map(({ name }) => name) }
}

/** Makes the numbers that the database gives to new rows continue after those of the restored rows. */
async function continueNumbers({ query }: CopySession): Promise<void> {
  const numbered = await query<{ table: string; column: string }>(`
    select c.relname as table, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and a.attidentity <> ''`)
  for (const { table, column } of numbered)
    await query(
      `select setval(pg_get_serial_sequence('"${table}"', '${column}'), coalesce((select max("${column}") from "${table}"), 0) + 1, false)`,
    )
}

/** Checks that the database has no tables. @throws BackupError */
async function assertEmpty({ query }: CopySession): Promise<void> {
  const found = await query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f') order by relname limit 3`,
  )
  if (found.length > 0)
    throw new BackupError(`The database is not empty (${found.map(({ name }) => name).join(', ')}): a backup can be restored only into an empty database.`) // prettier-ignore
}

/** Checks that the backup's tables are those that its migrations create, column by column. @throws BackupError */
async function assertTables(session: CopySession, manifest: SnapshotManifest): Promise<void> {
  const shapeOf = ({ name, columns }: { name: string; columns: string[] }) => `${name}(${columns.toSorted().join()})`
  const ours = (await readTables(session)).map(shapeOf).toSorted()
  const theirs = manifest.tables.map(shapeOf).toSorted()
  if (ours.join() !== theirs.join()) throw new BackupError('The tables of the backup do not match its migrations.')
}

type ReadTotals = { tables: Record<string, { rows: number; bytes: number; digest: Hash; pieces: number }>; files: SnapshotTotals['files'] } // prettier-ignore

async function storeRows(
  session: CopySession,
  { tables }: SnapshotManifest,
  archive: Archive,
): Promise<{ found: ReadTotals; said: SnapshotTotals; files: SnapshotFile[] }> {
  const found: ReadTotals = { tables: {}, files: {} }
  for (const { name } of tables) found.tables[name] = { rows: 0, bytes: 0, digest: createHash('sha256'), pieces: 0 }
  const byName = new Map(tables.map((table) => [table.name, table]))
  const files: SnapshotFile[] = []
  let said: SnapshotTotals | null = null
  // A piece is decompressed and stored while the next one is decrypted.
  let storing: Promise<void> = Promise.resolve()
  for await (const entry of archive) {
    if (said !== null) throw unknown(entry.name)
    const piece = readPieceName(entry.name)
    const table = piece === null ? undefined : byName.get(piece.table)
    if (piece !== null && table !== undefined) {
      const of = found.tables[table.name]!
      if (piece.number !== ++of.pieces) throw unknown(entry.name)
      const content = await contentOf(entry, MAX_PIECE_BYTES)
      await storing
      storing = store(content)
      storing.catch(() => {})
      async function store(packed: Buffer): Promise<void> {
        const lines = await unpacked(packed)
        of.digest.update(lines)
        of.bytes += lines.length
        of.rows += await session.copyIn(table!, lines).catch(notOfIt)
      }
    } else if (entry.name === TOTALS_NAME) said = readTotals((await textOf(entry, TOTALS_NAME)).toString('utf8'))
    else {
      const name = entry.name.replace(/^files\//, '')
      if (name === entry.name || !isFileName(name) || name in found.files || files.length >= MAX_FILES) throw unknown(entry.name) // prettier-ignore
      const content = await contentOf(entry, MAX_TEXT_BYTES)
      files.push({ name, content })
      found.files[name] = { bytes: content.length, sha256: sha256Of(content) }
    }
  }
  await storing
  if (said === null) throw new BackupError('The backup has no end.')
  return { found, said, files }
}

/**
 * Converts errors of values and constraints (SQLSTATE classes 22 and 23). The database's message contains the row,
 * which must not be shown.
 */
function notOfIt(cause: unknown): never {
  if (!/^2[23]/.test(sqlState(cause) ?? '')) throw cause
  throw new BackupError('The backup is damaged: the database rejects one of its rows.', { cause })
}

/** Compares the restored contents with the totals at the end of the backup. @throws BackupError */
function assertTotals(found: ReadTotals, said: SnapshotTotals): void {
  const tables = Object.fromEntries(
    Object.entries(found.tables).map(([name, { rows, bytes, digest }]) => [name, { rows, bytes, sha256: digest.digest('hex') }]), // prettier-ignore
  )
  for (const [kind, mine, theirs] of [
    ['table', tables, said.tables],
    ['file', found.files, said.files],
  ] as const)
    for (const name of new Set([...Object.keys(mine), ...Object.keys(theirs)]))
      if (!isSame(mine[name], theirs[name]))
        throw new BackupError(`The backup is damaged: the ${kind} ${name.slice(0, 60)} does not match its checksum.`)
}

type Total = { rows?: number; bytes: number; sha256: string } | undefined
const isSame = (a: Total, b: Total): boolean =>
  a !== undefined && b !== undefined && a.rows === b.rows && a.bytes === b.bytes && a.sha256 === b.sha256

async function assertCount({ query }: CopySession, table: string, rows: number): Promise<void> {
  const [row] = await query<{ rows: string }>(`select count(*)::text as rows from "${table}"`)
  if (Number(row!.rows) !== rows) throw new BackupError(`The table ${table} has ${row!.rows} rows and not ${rows}.`)
}

async function unpacked(packed: Buffer): Promise<Buffer> {
  try {
    return await decompress(packed, { maxOutputLength: MAX_PIECE_BYTES })
  } catch (cause) {
    throw new BackupError('A piece of the backup cannot be decompressed.', { cause })
  }
}

/** Reads an entry that must have this name. @throws BackupError */
async function textOf(entry: PackedFile | undefined, name: string): Promise<Buffer> {
  if (entry?.name !== name) throw new BackupError('The file is not a server backup.')
  return contentOf(entry, MAX_TEXT_BYTES)
}

async function contentOf({ name, size, data }: PackedFile, most: number): Promise<Buffer> {
  if (size > most) throw unknown(name)
  const pieces: Uint8Array[] = []
  for await (const piece of data) pieces.push(piece)
  return Buffer.concat(pieces)
}

const unknown = (name: string): BackupError =>
  new BackupError(`The backup contains an unknown file: ${JSON.stringify(name.slice(0, 60))}.`)
