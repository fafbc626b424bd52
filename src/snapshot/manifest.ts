import type { Migration } from '../store/migrate.ts'
import type { TableColumns } from '../store/copy.ts'
import { BackupError } from './fault.ts'

/** First entry of a backup: a description that is checked before any row is restored. */
export type SnapshotManifest = {
  format: typeof FORMAT
  version: typeof VERSION
  /** moment of the backup, ISO 8601 */
  at: string
  /** version of the program */
  program: string
  migrations: Pick<Migration, 'number' | 'name' | 'sha256'>[]
  /** in the order of restoring */
  tables: TableColumns[]
  /** the newest signed head of the signer's log in the database; null if there was none */
  head: { origin: string; size: number; at: string; note: string } | null
}

/** Last entry of a backup: its contents. It proves that the backup is complete and unchanged. */
export type SnapshotTotals = {
  tables: Record<string, { rows: number; bytes: number; sha256: string }>
  files: Record<string, { bytes: number; sha256: string }>
}

/** The record beside a backup, `FILE.json`, for information. */
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

/** Returns the name of a piece of a table in the archive; pieces are numbered from 1. */
export const pieceName = (table: string, number: number): string =>
  `tables/${table}/${String(number).padStart(6, '0')}.copy.gz`

/** Parses the name of a piece. @returns null for any other name */
export function readPieceName(name: string): { table: string; number: number } | null {
  const [, table, number] = /^tables\/([a-z_0-9]+)\/(\d{6,9})\.copy\.gz$/.exec(name) ?? []
  return table === undefined ? null : { table, number: Number(number) }
}

const NONE = 'The file is not a server backup.'

/** Parses the manifest. @throws BackupError  if the text is no manifest, or one of a newer version */
export function readManifest(text: string): SnapshotManifest {
  const manifest = parse(text) as Partial<SnapshotManifest> | null
  if (manifest?.format !== FORMAT) throw new BackupError(NONE)
  if (manifest.version !== VERSION) throw newer(manifest.program)
  const { migrations, tables, at } = manifest
  if (!Array.isArray(migrations) || !Array.isArray(tables) || typeof at !== 'string') throw new BackupError(NONE)
  return manifest as SnapshotManifest
}

/** Parses the totals. @throws BackupError */
export function readTotals(text: string): SnapshotTotals {
  const totals = parse(text) as Partial<SnapshotTotals> | null
  if (typeof totals?.tables !== 'object' || typeof totals.files !== 'object') throw new BackupError(NONE)
  return totals as SnapshotTotals
}

/**
 * Splits the migrations: those that created the backup's tables, and those to apply after its rows are restored.
 * @throws BackupError  if this program lacks a migration of the backup, or has a different one
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
    throw new BackupError(`Migration ${changed.name} of the backup differs from the migration of this program.`)
  return { before, after: ours.filter(({ number }) => !theirs.has(number)) }
}

const newer = (program: unknown): BackupError =>
  new BackupError(
    `The backup is of a newer version (${typeof program === 'string' ? program.slice(0, 40) : 'unknown'}). Restore it with that version.`,
  )

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BackupError(NONE)
  }
}
