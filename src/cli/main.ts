import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { ConfigError } from '../config.ts'
import { AppError } from '../errors.ts'
import { sqlState } from '../store/away.ts'
import { FolderInUse } from '../store/folder-lock.ts'
import { account } from './account.ts'
import { actions } from './actions.ts'
import { app } from './app.ts'
import { addAudit } from './audit.ts'
import { authKeys } from './auth-keys.ts'
import { addBackfill } from './backfill.ts'
import { network } from './network.ts'
import { operatorToken } from './operator-token.ts'
import { provider } from './provider.ts'
import { signer } from './signer.ts'
import { token } from './token.ts'

/**
 * `chatelaine <command>`: what an operator does beside the running server. Each command is a file of its own; they
 * take the same settings as the server. Answers go to standard output, everything else to standard error; the exit
 * code is 0 or 1.
 */
const program = new Command('chatelaine')
  .description(
    'Commands of a Chatelaine installation. They take the settings of the server: DATABASE_URL, DATA_DIR, NETWORKS_FILE.',
  )
  .version(versionOf(), '--version', 'print the version')
  .showHelpAfterError('Add --help for what can be given.')
  .exitOverride()
for (const command of [
  account(),
  actions(),
  app(),
  network(),
  authKeys(),
  operatorToken(),
  provider(),
  signer(),
  token(),
])
  program.addCommand(command)
addAudit(program)
addBackfill(program)
inherit(program)

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = error instanceof CommanderError ? Math.min(error.exitCode, 1) : 1
  if (!(error instanceof CommanderError)) explain(error)
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}

/** Why it could not be done, for a person or, with --json, for a program; a stack for what nobody foresaw. */
function explain(error: unknown): void {
  if (process.argv.includes('--json')) {
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

/** Foreign errors may hold addresses with passwords: only sentences of ours are shown. */
function messageOf(error: unknown): string {
  if (error instanceof FolderInUse)
    return `Process ${error.pid} holds the embedded database of DATA_DIR: stop it first, or use PostgreSQL.`
  if (error instanceof AppError && error.code === 'database_unavailable')
    return `The database of DATABASE_URL does not answer (${sqlState(error.cause) ?? 'it gave no code'}).`
  if (error instanceof AppError || error instanceof ConfigError) return error.message
  if (error instanceof Error && error.constructor === Error && (error as { code?: unknown }).code === undefined)
    return error.message
  const code = (error as { code?: unknown } | null)?.code
  return `It failed: ${error instanceof Error ? error.name : 'unknown error'}${typeof code === 'string' ? ` (${code})` : ''}.`
}

/** Settings of the program that its commands do not take over by themselves. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}
