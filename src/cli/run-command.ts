import { CommanderError } from 'commander'
import { ConfigError } from '../config.ts'
import { AppError } from '../errors.ts'
import { FolderInUse } from '../folder-lock.ts'
import { sqlState } from '../store/away.ts'
import { openProgram } from './program.ts'
import { ExitCode, type Shell } from './shell.ts'

/**
 * Runs `chatelaine <words>` and closes what it opened. Several commands may run at once in one process.
 * @returns the exit code
 */
export async function runCommand(words: readonly string[], shell: Shell): Promise<number> {
  try {
    const program = await openProgram(words, shell)
    await program.parseAsync([...words], { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof ExitCode) return error.code
    if (error instanceof CommanderError) return Math.min(error.exitCode, 1)
    explain(error, shell, { asJson: words.includes('--json') })
    return 1
  }
}

/** Prints why a command failed: as text or, with --json, as JSON. */
function explain(error: unknown, { console }: Shell, { asJson }: { asJson: boolean }): void {
  if (asJson) {
    const known =
      error instanceof AppError
        ? { code: error.code, detail: error.message, errors: error.errors ?? [] }
        : { code: 'failed', detail: messageOf(error) }
    console.error(JSON.stringify(known))
    return
  }
  if (error instanceof AppError && (error.errors?.length ?? 0) > 1)
    for (const { detail } of error.errors!) console.error(`- ${detail}`)
  else console.error(messageOf(error))
}

/**
 * Returns the message to print. Foreign errors may contain addresses with passwords, so only our own sentences are
 * shown.
 */
function messageOf(error: unknown): string {
  if (error instanceof FolderInUse)
    return `Process ${error.holder} is using the embedded database in DATA_DIR. Stop it first, or use PostgreSQL.`
  if (error instanceof AppError && error.code === 'database_unavailable')
    return `The database at DATABASE_URL is not responding (${sqlState(error.cause) ?? 'no error code'}).`
  if (error instanceof AppError || error instanceof ConfigError) return error.message
  if (error instanceof Error && error.constructor === Error && (error as { code?: unknown }).code === undefined)
    return error.message
  const code = (error as { code?: unknown } | null)?.code
  return `The command failed: ${error instanceof Error ? error.name : 'unknown error'}${typeof code === 'string' ? ` (${code})` : ''}.`
}
