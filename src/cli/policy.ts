import { Command } from 'commander'
import { become } from './become.ts'
import type { Shell } from './shell.ts'
import { collect } from './options.ts'

/** Builds `chatelaine policy …`: checks, signs and replays policies of the signer: docs/operate/policy.md. */
export function policy(shell: Shell): Command {
  const command = new Command('policy').description(
    'check, sign and replay signer policies; never changes the policy in force',
  )
  command
    .command('check')
    .description('describe a policy in words, with warnings')
    .argument('<file>')
    .action((file: string) => become(shell, 'programs/policy-tool.ts', ['check', file]))
  command
    .command('keygen')
    .description(
      'create a key that signs policies: FILE is private, FILE.pub is for the signer; never overwrites a file',
    )
    .argument('<file>')
    .action((file: string) => become(shell, 'programs/policy-tool.ts', ['keygen', file]))
  command
    .command('sign')
    .description('add signatures to a policy, or to a file that others have signed')
    .argument('<file>')
    .requiredOption('--key <file>', 'private key from `policy keygen`; repeat for each', collect, [])
    .option('--out <file>', 'file to write; default standard output')
    .action((file: string, { key, out }: { key: string[]; out?: string }) =>
      become(shell, 'programs/policy-tool.ts', [
        ...['sign', file],
        ...key.flatMap((one) => ['--key', one]),
        ...(out === undefined ? [] : ['--out', out]),
      ]),
    )
  command
    .command('replay')
    .description('list past signatures that a policy would have rejected; works while the signer runs')
    .argument('<file>')
    .action((file: string) => become(shell, 'programs/policy-tool.ts', ['replay', file]))
  return command
}
