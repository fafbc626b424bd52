import { AgeError } from '../../backup/age.ts'
import { ArchiveError } from '../../backup/tar.ts'
import { ConfigError } from '../../config.ts'
import { LedgerDamaged, StartError } from '../refusal.ts'

/** Returns a sentence about an error, for the operator who runs a command on a backup. */
export function sayFault(error: unknown, usage: string): string {
  const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
  if (code.startsWith('ERR_PARSE_ARGS')) return usage
  const ours = [StartError, LedgerDamaged, ConfigError, AgeError, ArchiveError]
  if (ours.some((one) => error instanceof one)) return (error as Error).message
  return `The backup could not be read or written (${code}).`
}
