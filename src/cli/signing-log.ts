import { Command } from 'commander'
import { withDatabase, readInstallationSettings } from './database.ts'
import { facts, print, type JsonOption } from './print.ts'
import { commandActor } from './registry.ts'
import type { Shell } from './shell.ts'
import { recorded } from '../operator/actions.ts'
import { forgetHead, readKeptHead } from '../signing-log/keep.ts'

/**
 * Builds `chatelaine signing-log …`: the newest head of the signer's log that the servers stored, and how to accept
 * another signer.
 */
export function signingLog(shell: Shell): Command {
  const command = new Command('signing-log').description('show or replace the stored head of the signer’s log')
  command
    .command('show')
    .description('print the stored head')
    .option('--json', 'JSON')
    .action((options: JsonOption) =>
      withDatabase(readInstallationSettings(shell.env), async (db) => {
        const head = await readKeptHead(db)
        if (head === null) return print(shell, options, null, 'No head is stored.')
        const { origin, size, at } = head
        print(
          shell,
          options,
          head,
          facts([
            ['Identity', origin],
            ['Records', String(size)],
            ['Signed', at],
          ]),
        )
      }),
    )
  command
    .command('forget')
    .description('accept a signer with another identity, while all servers are stopped')
    .argument('<identity>', 'the stored identity, as `signing-log show` prints it')
    .action((identity: string) =>
      withDatabase(readInstallationSettings(shell.env), async (db) => {
        await recorded(db, commandActor(shell.env), { action: 'forget-signing-log', target: identity }, (db) =>
          forgetHead(db, identity),
        )
        print(shell, {}, null, 'The stored head is removed. Each server trusts the first signer that it connects to.')
      }),
    )
  return command
}
