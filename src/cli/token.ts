import { Command } from 'commander'
import { developmentName } from '../devnet/username.ts'
import { parseUserId } from '../ids.ts'
import { readInstallationSettings } from './database.ts'
import { print } from './print.ts'
import { openOperator } from './reach.ts'
import { inShell, type Shell } from './shell.ts'

/** Builds `chatelaine token <user>`: prints an access token of a development installation, without a browser. */
export function token(shell: Shell): Command {
  return new Command('token')
    .description(
      'print an access token for a development user. Revoking access does not end it, and it is never bound to a key',
    )
    .argument('<user>', 'any name, or a user id: bob is DEV-bob; a new user gets an account')
    .option('--app <client-id>', 'application of the token', 'demo')
    .option('--json', 'print JSON')
    .action(inShell(shell, show))
}

async function show(shell: Shell, user: string, given: { app: string; json?: boolean }): Promise<void> {
  if (shell.env.NODE_ENV === 'production')
    throw new Error('This command works in development only. In production, users sign in.')
  const named = parseUserId(user)
  // The server rejects ids of unknown providers.
  const name = developmentName(named?.provider === 'DEV' ? named.subject : user)
  if (name === null && (named === null || named.provider === 'DEV'))
    throw new Error(
      'This is not a valid user name: 1 to 64 letters, digits, dots, hyphens or underscores, beginning with a letter or a digit.',
    )
  const { dataDir } = readInstallationSettings(shell.env)
  const ask = await openOperator(dataDir, null)
  const made = await ask<{ token: string; userId: string }>('POST', '/tokens', {
    user: named === null || named.provider === 'DEV' ? `DEV-${name}` : user,
    clientId: given.app,
  })
  // Only the token on its line, for TOKEN=$(…).
  print(shell, given, made, made.token)
}
