import { Command } from 'commander'
import { withDatabase, readInstallationSettings } from './database.ts'
import { facts, print, type JsonOption } from './print.ts'
import { commandActor } from './registry.ts'
import type { Shell } from './shell.ts'
import { recorded } from '../operator/actions.ts'
import { forgetHead, readKeptHead } from '../signing-log/keep.ts'

/** `chatelaine signing-log …`: the newest head of the signer's log that the servers keep, and what happens when the signer is another. */
export function signingLog(shell: Shell): Command {
  const command = new Command('signing-log').description(
    'the newest signed head of the signer’s log, which every server shows the signer',
  )
  command
    .command('show')
    .description('print the head that is kept')
    .option('--json', 'JSON')
    .action((options: JsonOption) =>
      withDatabase(readInstallationSettings(shell.env), async (db) => {
        const head = await readKeptHead(db)
        if (head === null) return print(shell, options, null, 'No head is kept.')
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
    .description('believe a signer with another identity from now on; with all servers stopped')
    .argument('<identity>', 'the identity that is kept, as `signing-log show` prints it')
    .action((identity: string) =>
      withDatabase(readInstallationSettings(shell.env), async (db) => {
        await recorded(db, commandActor(shell.env), { action: 'forget-signing-log', target: identity }, (db) =>
          forgetHead(db, identity),
        )
        print(shell, {}, null, 'The head is forgotten: the servers believe the first signer that they meet.')
      }),
    )
  return command
}
