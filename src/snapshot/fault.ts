import { AgeError } from '../backup/age.ts'
import { ArchiveError } from '../backup/tar.ts'
import { ConfigError } from '../config.ts'
import { AppError } from '../errors.ts'
import { FolderInUse } from '../folder-lock.ts'
import { sqlState } from '../store/away.ts'

/**
 * A problem with a backup or its location. Operators see the text, so it contains no secrets: no path, address or
 * setting.
 */
export class BackupError extends Error {}

/** Explanations of system error codes. */
const SYSTEM: Record<string, string> = {
  ENOSPC: 'The disk is full',
  EDQUOT: 'The disk quota is used up',
  EFBIG: 'The file is larger than this user may write',
  EACCES: 'This user has no access',
  EPERM: 'This user has no access',
  EROFS: 'The disk is read-only',
  ENOENT: 'There is no such file or folder',
  EISDIR: 'It is a folder',
  EEXIST: 'It exists already',
}

/** ENOSPC as a WASI number, which the embedded database reports instead of Node's code. */
const WASI_ENOSPC = 51

/** SQLSTATEs that an operator can resolve. */
const DATABASE: Record<string, string> = {
  '42501': 'The role of DATABASE_URL has no right to do this. The required role is in docs/operate/backup-restore.md',
  '53100': 'The disk of the database is full',
  '40001': 'The standby removed rows during the read, to catch up with its primary: try again, or use the primary',
}

/**
 * Converts an error into a sentence for the operator of a command. Unexpected errors are returned unchanged.
 * @param outcome  what was done, such as `Nothing was written.`
 */
export function sayFault(error: unknown, outcome: string): unknown {
  if (error instanceof ConfigError || error instanceof FolderInUse) return error
  if (error instanceof BackupError || error instanceof AgeError || error instanceof ArchiveError)
    return new Error(`${error.message} ${outcome}`, { cause: error })
  // For an unavailable database, the reason is in the cause.
  const state = sqlState(error instanceof AppError ? error.cause : error) ?? ''
  const why = DATABASE[state] ?? (error instanceof AppError ? undefined : SYSTEM[state])
  if (why !== undefined) return new Error(`${why} (${state}). ${outcome}`, { cause: error })
  const isFull = state === '' && (error as { errno?: unknown } | null)?.errno === WASI_ENOSPC
  return isFull ? new Error(`${SYSTEM.ENOSPC} (ENOSPC). ${outcome}`, { cause: error }) : error
}
