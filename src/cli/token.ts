import { Command } from 'commander'
import { findPlace } from './place.ts'
import { print } from './print.ts'
import { openOperator } from './reach.ts'

/** `chatelaine token <user>`: an access token of a development installation, without a browser. */
export function token(): Command {
  return new Command('token')
    .description('an access token for somebody of the development sign-in, from the server that runs on DATA_DIR')
    .argument('<user>', 'any name, or a user id: bob is DEV-bob; a new one gets an account')
    .option('--app <client-id>', 'application that the token is for', 'demo')
    .option('--json', 'print JSON')
    .action(show)
}

async function show(user: string, given: { app: string; json?: boolean }): Promise<void> {
  if (process.env.NODE_ENV === 'production')
    throw new Error('Tokens are given out like this in development only; in production people sign in.')
  const { dataDir } = findPlace()
  const ask = await openOperator(dataDir, null)
  const made = await ask<{ token: string; userId: string }>('POST', '/tokens', { user, clientId: given.app })
  // Alone on its line, so that it fits into TOKEN=$(…).
  print(given, made, made.token)
}
