import { Command } from 'commander'
import { userIdOf } from '../ids.ts'
import { CONSOLE_ROLES, isConsoleRole, listOperators, type ConsoleOperator } from '../operator/operators.ts'
import { openTelemetry } from '../telemetry.ts'
import { withDatabaseOrServer } from './database.ts'
import { facts, print, table, type JsonOption } from './print.ts'
import { actsOf } from './registry.ts'
import { readSealKeys } from './seal-keys.ts'
import { inShell, logTo, type Shell } from './shell.ts'

type OperatorOptions = JsonOption & { provider: string; userId: string }

/** Builds `chatelaine operator …`: the identities that may open the console. */
export function operator(shell: Shell): Command {
  const command = new Command('operator').description('manage operators of the console: docs/operate/console.md')
  const ofOne = (name: string): Command =>
    command
      .command(name)
      .requiredOption('--provider <name>', 'upper-case name of the identity provider')
      .requiredOption('--user-id <id>', 'the provider’s immutable id of the user; never a name or an e-mail address')
  ofOne('add')
    .description('give an identity a role in the console, or another role; the user need not have signed in yet')
    .requiredOption('--role <role>', CONSOLE_ROLES.join(', '))
    .option('--json', 'print JSON')
    .action(inShell(shell, add))
  command
    .command('list')
    .description('list operators of the console')
    .option('--json', 'print JSON')
    .action(inShell(shell, list))
  ofOne('remove')
    .description('remove an operator; the next request of each of their browsers is rejected')
    .option('--json', 'print JSON')
    .action(inShell(shell, remove))
  return command
}

async function add(shell: Shell, { provider, userId: id, role, ...given }: OperatorOptions & { role: string }) {
  if (!isConsoleRole(role)) throw new Error(`--role must be one of ${CONSOLE_ROLES.join(', ')}.`)
  const userId = userIdOf(provider, id)
  const made = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).addOperator(userId, role),
    (ask) => ask<Pick<ConsoleOperator, 'userId' | 'role'>>('PUT', pathOf(userId), { role }),
  )
  print(shell, given, made, facts([['operator', made.userId], ['role', made.role]])) // prettier-ignore
}

async function list(shell: Shell, given: JsonOption): Promise<void> {
  const found = await withDatabaseOrServer(
    shell.env,
    async (db) =>
      listOperators({
        db,
        sealKeys: await readSealKeys(shell.env),
        telemetry: openTelemetry('cli', 'error', logTo(shell)),
      }),
    (ask) => ask<ConsoleOperator[]>('GET', '/operators'),
  )
  const rows = found.map(({ userId, role, createdAt, isAuthentic }) => [
    userId,
    isAuthentic ? role : 'none: the row has no valid seal',
    createdAt,
  ])
  print(shell, given, found, rows.length === 0 ? 'The console has no operators.' : table(['operator', 'role', 'since'], rows)) // prettier-ignore
}

async function remove(shell: Shell, { provider, userId: id, ...given }: OperatorOptions): Promise<void> {
  const userId = userIdOf(provider, id)
  const done = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).removeOperator(userId),
    (ask) => ask<{ userId: string }>('DELETE', pathOf(userId)),
  )
  print(shell, given, done, facts([['removed', done.userId]]))
}

const pathOf = (userId: string): string => `/operators/${encodeURIComponent(userId)}`
