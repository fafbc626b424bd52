import { Command } from 'commander'
import { listActions, verifyActions } from '../operator/actions.ts'
import type { OperatorAction } from '../operator/wire.ts'
import { withDatabaseOrServer } from './database.ts'
import { print, table } from './print.ts'
import { ExitCode, inShell, type Shell } from './shell.ts'

type ListActionsOptions = { json?: boolean; limit?: string; before?: string }

/** Builds `chatelaine actions …`: lists operator actions and verifies the chain of their records. */
export function actions(shell: Shell): Command {
  const command = new Command('actions').description('read the audit log of operator actions')
  command
    .command('list')
    .description('list operator actions, newest first')
    .option('--limit <n>', 'maximum number, 1 to 200', '50')
    .option('--before <seq>', 'only actions before this number')
    .option('--json', 'print JSON')
    .action(inShell(shell, list))
  command
    .command('verify')
    .description('verify the chain of records: none was changed, moved or removed')
    .option('--json', 'print JSON')
    .action(inShell(shell, verify))
  return command
}

async function list(shell: Shell, given: ListActionsOptions): Promise<void> {
  const [limit, before] = [given.limit ?? '50', given.before].map((text) =>
    text === undefined ? undefined : Number(text),
  )
  if (!Number.isInteger(limit) || limit! < 1 || limit! > 200) throw new Error('--limit must be 1 to 200.')
  if (before !== undefined && !Number.isSafeInteger(before))
    throw new Error('--before must be the number of a listed action.')
  const found = await withDatabaseOrServer(
    shell.env,
    (db) => listActions(db, { limit: limit!, ...(before === undefined ? {} : { before }) }),
    (ask) => ask<OperatorAction[]>('GET', `/actions?limit=${limit}${before === undefined ? '' : `&before=${before}`}`),
  )
  const rows = found.map(({ seq, at, actor, via, action, target, after }) => [
    String(seq),
    at,
    `${actor} (${via})`,
    action,
    target,
    after === null ? '' : JSON.stringify(after),
  ])
  print(
    shell,
    given,
    found,
    rows.length === 0 ? 'No actions yet.' : table(['', 'when', 'who', 'did', 'to', 'now'], rows),
  )
}

async function verify(shell: Shell, given: ListActionsOptions): Promise<void> {
  const found = await withDatabaseOrServer(
    shell.env,
    (db) => verifyActions(db),
    (ask) => ask<Awaited<ReturnType<typeof verifyActions>>>('GET', '/actions/verify'),
  )
  const { actions: count, newest, firstWrong } = found
  const text =
    firstWrong === null
      ? `${count} actions, intact. Newest record: ${newest}\nCompare this record with the last operator_acted in your logs.`
      : `CHANGED: action ${firstWrong} was altered after it was recorded. The ${count} earlier actions are intact, up to record ${newest}.`
  print(shell, given, found, text)
  if (firstWrong !== null) throw new ExitCode(1)
}
