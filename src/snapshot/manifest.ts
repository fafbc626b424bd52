import type { Migration } from '../store/migrate.ts'
import type { TableColumns } from '../store/copy.ts'
import { BackupError } from './fault.ts'

/** What a backup says of itself, first in its archive: what has to fit before a row of it is looked at. */
export type SnapshotManifest = {
  format: typeof FORMAT
  version: typeof VERSION
  /** ISO 8601: of the moment whose rows these are */
  at: string
  /** version of the program */
  program: string
  migrations: Pick<Migration, 'number' | 'name' | 'sha256'>[]
  /** in the order in which they go in */
  tables: TableColumns[]
  /** the newest signed head of the signer's log that the database knew; null where none was kept */
  head: { origin: string; size: number; at: string; note: string } | null
}

/** What the archive held, last in it: by this it is known that all of it is there, and that it is what was written. */
export type SnapshotTotals = {
  tables: Record<string, { rows: number; bytes: number; sha256: string }>
  files: Record<string, { bytes: number; sha256: string }>
}

/** What lies beside a backup, in `FILE.json`, for anyone who only wants to know. */
export type SnapshotRecord = Omit<SnapshotManifest, 'tables' | 'migrations'> & {
  migration: number
  rows: Record<string, number>
  files: string[]
  bytes: number
  sha256: string
}

export const MANIFEST_NAME = 'manifest.json'
export const TOTALS_NAME = 'totals.json'
export const FORMAT = 'chatelaine backup'
export const VERSION = 1

/** The name of a piece of a table in the archive; pieces are counted from 1. */
export const pieceName = (table: string, number: number): string =>
  `tables/${table}/${String(number).padStart(6, '0')}.copy.gz`

/** @returns null for what is no piece of a table */
export function readPieceName(name: string): { table: string; number: number } | null {
  const [, table, number] = /^tables\/([a-z_0-9]+)\/(\d{6,9})\.copy\.gz$/.exec(name) ?? []
  return table === undefined ? null : { table, number: Number(number) }
}

const NONE = 'The file is no backup of a server.'

/** @throws BackupError  when it is none, or one of a newer version */
export function readManifest(text: string): SnapshotManifest {
  const manifest = parse(text) as Partial<SnapshotManifest> | null
  if (manifest?.format !== FORMAT) throw new BackupError(NONE)
  if (manifest.version !== VERSION) throw newer(manifest.program)
  const { migrations, tables, at } = manifest
  if (!Array.isArray(migrations) || !Array.isArray(tables) || typeof at !== 'string') throw new BackupError(NONE)
  return manifest as SnapshotManifest
}

/** @throws BackupError */
export function readTotals(text: string): SnapshotTotals {
  const totals = parse(text) as Partial<SnapshotTotals> | null
  if (typeof totals?.tables !== 'object' || typeof totals.files !== 'object') throw new BackupError(NONE)
  return totals as SnapshotTotals
}

/**
 * Which migrations made the tables of the backup, and which come after its rows are in.
 * @throws BackupError  when this program does not have one of them, or has it otherwise
 */
export function planMigrations(
  { migrations, program }: SnapshotManifest,
  ours: readonly Migration[],
): { before: Migration[]; after: Migration[] } {
  const theirs = new Map(migrations.map((one) => [one.number, one]))
  const before = ours.filter(({ number }) => theirs.has(number))
  if (before.length < theirs.size) throw newer(program)
  const changed = before.find(({ number, sha256 }) => theirs.get(number)!.sha256 !== sha256)
  if (changed !== undefined)
    throw new BackupError(`Migration ${changed.name} of the backup is another than that of this program.`)
  return { before, after: ours.filter(({ number }) => !theirs.has(number)) }
}

const newer = (program: unknown): BackupError =>
  new BackupError(
    `The backup is of a newer version (${typeof program === 'string' ? program.slice(0, 40) : 'unknown'}): restore it with that one.`,
  )

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BackupError(NONE)
  }
}
