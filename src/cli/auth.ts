import { Command } from 'commander'
import { becomeAuth } from './become.ts'
import type { Shell } from './shell.ts'

/** Builds `chatelaine auth …`: the authorization server as a separate program, beside an API that holds no key. */
export function auth(shell: Shell): Command {
  const command = new Command('auth').description(
    'run the authorization server as a separate program: docs/operate/split-deployment.md',
  )
  command
    .command('run')
    .description('run the authorization server until SIGTERM; prints `ready` when it listens')
    .action(() => becomeAuth(shell))
  return command
}
