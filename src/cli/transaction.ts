import { Command } from 'commander'
import type { TransactionChange } from '../transactions/change-wire.ts'
import { withDatabaseOrServer } from './database.ts'
import { facts, print, type JsonOption } from './print.ts'
import { actsOf } from './registry.ts'
import { inShell, type Shell } from './shell.ts'

/** Builds `chatelaine transaction …`: changes of pending transactions. */
export function transaction(shell: Shell): Command {
  const command = new Command('transaction').description('cancel pending transactions and bump their fees')
  const change = (name: TransactionChange['change'], description: string) =>
    command
      .command(name)
      .description(description)
      .argument('<id>', 'id of the transaction, tx_…')
      .option('--json', 'print JSON')
      .action(inShell(shell, (shell: Shell, id: string, given: JsonOption) => ask(shell, id, given, name)))
  change('cancel', 'request that a server sends an empty transaction with the same nonce at a higher fee')
  change('speed-up', 'request that a server sends the transaction again at a higher fee')
  return command
}

async function ask(shell: Shell, id: string, given: JsonOption, change: TransactionChange['change']): Promise<void> {
  const done = await withDatabaseOrServer(
    shell.env,
    (db) => actsOf(shell.env, db).changeTransaction(id, change),
    (send) => send<TransactionChange>('POST', `/transactions/${encodeURIComponent(id)}/${change}`),
  )
  print(shell, given, done, facts([['transaction', done.transactionId], ['requested', done.change], ['at', done.askedAt]])) // prettier-ignore
}
