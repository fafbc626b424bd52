/**
 * cli: `chatelaine …`, the commands of an operator, one file each.
 * Owns: arguments, output, and finding the installation: its database, or the running server that holds the embedded
 *   one.
 * Does not own: what a command does; it calls the verb of a slice, as the operator API does.
 */

import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { account } from './account.ts'
import { actions } from './actions.ts'
import { app } from './app.ts'
import { addAudit } from './audit.ts'
import { authKeys } from './auth-keys.ts'
import { addBackfill } from './backfill.ts'
import { network } from './network.ts'
import { operatorToken } from './operator-token.ts'
import { policy } from './policy.ts'
import { provider } from './provider.ts'
import { signer } from './signer.ts'
import { signingLog } from './signing-log.ts'
import { token } from './token.ts'
import { addVerifyLog } from './verify-log.ts'

/**
 * `chatelaine <command>`: what an operator does beside the running server. Each command is a file of its own; they
 * take the same settings as the server. Answers go to standard output, everything else to standard error; the exit
 * code is 0 or 1.
 */
export function openProgram(): Command {
  const program = new Command('chatelaine')
    .description(
      'Commands for a Chatelaine installation. They use the settings of the server: DATABASE_URL, DATA_DIR, NETWORKS_FILE.',
    )
    .version(versionOf(), '--version', 'print the version')
    .showHelpAfterError('Add --help for the options.')
    .exitOverride()
  for (const command of [
    account(),
    actions(),
    app(),
    network(),
    authKeys(),
    operatorToken(),
    policy(),
    provider(),
    signer(),
    signingLog(),
    token(),
  ])
    program.addCommand(command)
  addAudit(program)
  addBackfill(program)
  addVerifyLog(program)
  inherit(program)
  return program
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}

/** Settings of the program that its commands do not take over by themselves. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}
