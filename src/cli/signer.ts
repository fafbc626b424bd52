import { Command } from 'commander'
import { become } from './become.ts'
import type { Shell } from './shell.ts'
import { collect } from './options.ts'

/**
 * Builds `chatelaine signer …`. The signer and its tools are separate programs, which use SIGNER_… settings and share
 * nothing with the server. Each replaces this process, so that no process is between it and its supervisor.
 */
export function signer(shell: Shell): Command {
  const command = new Command('signer').description(
    'run and manage the signer, a separate program with SIGNER_… settings',
  )
  command
    .command('create-key')
    .description('create the master key (KEK) of a new signer: SIGNER_KEK_FILE; never overwrites a file')
    .action(() => become(shell, 'programs/create-key.ts', []))
  command
    .command('run')
    .description('run the signer until SIGTERM; prints `ready` when it listens')
    .option(
      '--development',
      'development mode: create a missing master key (KEK), and turn off the rules of production',
    )
    .action(({ development }: { development?: true }) =>
      become(shell, 'main.ts', development === undefined ? [] : ['--development']),
    )
  command
    .command('verify')
    .description('verify the whole store: ledger, witness and every signature; works while the signer runs')
    .argument('[folder]', 'default SIGNER_DIR')
    .action((folder?: string) => become(shell, 'programs/verify.ts', folder === undefined ? [] : [folder]))
  command
    .command('accept-restore')
    .description('show the losses of a restored store, and accept it, while the signer is stopped')
    .option(
      '--rpc-url <url>',
      'node of a network, whose transaction counts are not signed again; repeat for each network; `-` reads URLs from standard input',
      collect,
      [],
    )
    .option('--without-networks', 'ask no network; lost nonces may then be signed again')
    .option('--head <file>', 'newest head, from `chatelaine signing-log show --json` of the server')
    .option(
      '--freeze <subject>',
      'repeat a freeze that the copy lost: `everything`, or in quotes `user ID`; repeat for several',
      collect,
      [],
    )
    .option('--accept <record>', 'accept the store; the value is printed without this option')
    .action(({ rpcUrl, withoutNetworks, accept, head, freeze }: AcceptOptions) =>
      become(shell, 'programs/accept-restore.ts', [
        ...(head === undefined ? [] : ['--head', head]),
        ...freeze.flatMap((one) => ['--freeze', one]),
        ...rpcUrl.flatMap((url) => ['--rpc-url', url]),
        ...(withoutNetworks === true ? ['--without-networks'] : []),
        ...(accept === undefined ? [] : ['--accept', accept]),
      ]),
    )
  command
    .command('restore-keys')
    .description('restore lost keys from a file of `chatelaine account export-keys`, while the signer is stopped')
    .argument('<file>', 'file of `chatelaine account export-keys`')
    .option(
      '--identity <key>',
      'restore only keys whose address this identity attested: the verifier key of the lost signer',
    )
    .action((file: string, { identity }: { identity?: string }) =>
      become(shell, 'programs/restore-keys.ts', [file, ...(identity === undefined ? [] : ['--identity', identity])]),
    )
  const shares = command
    .command('kek-shares')
    .description('split a file-based master key (KEK) into shares, or combine shares')
  shares
    .command('split')
    .description('print the shares of the master key, or write each to a file')
    .requiredOption('--of <number>', 'number of shares')
    .requiredOption('--need <number>', 'number of shares that restore the key')
    .option('--to <dir>', 'folder for the share files; not SIGNER_DIR and not the folder of the key')
    .action(({ of, need, to }: { of: string; need: string; to?: string }) =>
      become(shell, 'programs/kek-shares.ts', [
        'split',
        '--of',
        of,
        '--need',
        need,
        ...(to === undefined ? [] : ['--to', to]),
      ]),
    )
  shares
    .command('combine')
    .description('create the master key from its shares; never overwrites a file')
    .argument('<file...>', 'one share each; - is standard input')
    .action((files: string[]) => become(shell, 'programs/kek-shares.ts', ['combine', '--', ...files]))
  command
    .command('import-keys')
    .description('import keys from keystores or from `export-all` of another installation, into a running signer')
    .argument('<file>', 'lines of JSON: docs/reference/key-file-format.md')
    .requiredOption('--manifest <file>', 'file to write: users and addresses, for `chatelaine account import`')
    .option('--recipient-key <file>', 'private key from `recipient-key`, for a file of `export-all`')
    .option('--password-file <file>', 'file with the password, for a file of keystores (Web3 Secret Storage v3)')
    .action(
      (
        file: string,
        { manifest, recipientKey, passwordFile }: { manifest: string; recipientKey?: string; passwordFile?: string },
      ) =>
        become(shell, 'programs/import-keys.ts', [
          ...[file, '--manifest', manifest],
          ...(recipientKey === undefined ? [] : ['--recipient-key', recipientKey]),
          ...(passwordFile === undefined ? [] : ['--password-file', passwordFile]),
        ]),
    )
  command
    .command('recipient-key')
    .description('create a key pair for `export-all`, and print its public half; never overwrites a file')
    .argument('<file>', 'file to create: the private half')
    .action((file: string) => become(shell, 'programs/export-all.ts', ['recipient-key', file]))
  command
    .command('export-all')
    .description('export all keys of a running signer, sealed to a recipient; needs SIGNER_EXPORT_ALL=on')
    .argument('<file>', 'file to create')
    .requiredOption('--to-recipient <key>', 'public key that `recipient-key` printed at the destination')
    .action((file: string, { toRecipient }: { toRecipient: string }) =>
      become(shell, 'programs/export-all.ts', ['export-all', file, '--to-recipient', toRecipient]),
    )
  command
    .command('create-backup-key')
    .description('create a backup identity (age) in a file, and print its recipient')
    .argument('<file>', 'file to create; do not store it with the backups or on this machine')
    .action((file: string) => become(shell, 'programs/create-backup-key.ts', [file]))
  command
    .command('backup')
    .description('back up the store into one encrypted file (age), while the signer runs; without the master key (KEK)')
    .requiredOption(
      '--to <file>',
      'file to create, not in SIGNER_DIR or beside the master key; FILE.json beside it describes its contents',
    )
    .requiredOption('--recipient <age1…>', 'age1… recipient that can open the file; repeat for several', collect)
    .action(({ to, recipient }: { to: string; recipient: string[] }) =>
      become(shell, 'programs/backup.ts', ['--to', to, ...recipient.flatMap((one) => ['--recipient', one])]),
    )
  command
    .command('restore')
    .description('restore a backup into an empty SIGNER_DIR; then run `accept-restore`, before which nothing is signed')
    .argument('<file>', 'file of `chatelaine signer backup`')
    .requiredOption('--identity <file>', 'file with the identity of a recipient; repeat for each', collect)
    .action((file: string, { identity }: { identity: string[] }) =>
      become(shell, 'programs/restore.ts', [file, ...identity.flatMap((one) => ['--identity', one])]),
    )
  command
    .command('drill')
    .description('test a backup in a temporary folder: check it and derive every address; changes no store')
    .argument('<file>', 'file of `chatelaine signer backup`')
    .requiredOption('--identity <file>', 'file with the identity of a recipient; repeat for each', collect)
    .option('--in <folder>', 'parent of the temporary folder, with space for the store')
    .action((file: string, given: { identity: string[]; in?: string }) =>
      become(shell, 'programs/drill.ts', [
        file,
        ...given.identity.flatMap((one) => ['--identity', one]),
        ...(given.in === undefined ? [] : ['--in', given.in]),
      ]),
    )
  command
    .command('rotate-kek')
    .description('rewrap all data keys with the next master key (SIGNER_KEK_NEXT…), while the signer runs')
    .action(() => become(shell, 'programs/rotate.ts', ['rotateKek']))
  command
    .command('rotate-dek')
    .description('rewrap all user keys with a new data key, while the signer runs')
    .action(() => become(shell, 'programs/rotate.ts', ['rotateDek']))
  command
    .command('trust-key')
    .description(
      'list trusted and offered keys of the authorization server, accept or remove them; works while the signer runs',
    )
    .option('--accept <fingerprint>', 'trust a key that SIGNER_JWKS_FILE offers; repeat for several', collect, [])
    .option('--remove <fingerprint>', 'end the trust in a key; repeat for several', collect, [])
    .action(({ accept, remove }: { accept: string[]; remove: string[] }) =>
      become(shell, 'programs/trust-key.ts', [
        ...accept.flatMap((one) => ['--accept', one]),
        ...remove.flatMap((one) => ['--remove', one]),
      ]),
    )
  command
    .command('policy-keys')
    .description(
      'list or change the keys that sign policies, and how many are required; works while the signer runs (docs/operate/policy.md)',
    )
    .option('--offer <file>', 'public key from `chatelaine policy keygen`; repeat for each', collect, [])
    .option('--accept <fingerprint>', 'trust an offered key; repeat for each', collect, [])
    .option('--remove <fingerprint>', 'end the trust in a key; repeat for several', collect, [])
    .option('--threshold <number>', 'number of signatures that a policy requires')
    .action((options: { offer: string[]; accept: string[]; remove: string[]; threshold?: string }) =>
      become(shell, 'programs/policy-keys.ts', [
        ...(['offer', 'accept', 'remove'] as const).flatMap((name) =>
          options[name].flatMap((one) => [`--${name}`, one]),
        ),
        ...(options.threshold === undefined ? [] : ['--threshold', options.threshold]),
      ]),
    )
  const subject = 'everything, or `network CHAIN_ID`, `user ID`, `application ID`'
  const liftable = `${subject}, or \`lists\`: all freezes that a list made`
  command
    .command('freeze')
    .description('freeze a user, an application, a network or everything in the running signer, for any token')
    .argument('<subject...>', subject)
    .action((words: string[]) => become(shell, 'programs/freeze.ts', ['freeze', ...words]))
  command
    .command('unfreeze')
    .description('lift a freeze in the running signer')
    .argument('<subject...>', liftable)
    .action((words: string[]) => become(shell, 'programs/freeze.ts', ['unfreeze', ...words]))
  command
    .command('frozen')
    .description('list freezes in the running signer, its own and the server’s')
    .action(() => become(shell, 'programs/freeze.ts', ['frozen']))
  command
    .command('grant-withdrawal')
    .description(
      'grant one withdrawal from a sponsor, valid for an hour, for `chatelaine sponsor withdraw`; replaces an earlier grant for this network',
    )
    .argument('<sponsor>', 'name of the sponsor')
    .argument('<chain-id>', 'chain id of the network')
    .argument('<address>', 'recipient')
    .argument('<wei>', 'maximum amount, including the first fee, wei')
    .action((...words: string[]) => become(shell, 'programs/withdrawal.ts', words.slice(0, 4)))
  return command
}

type AcceptOptions = { rpcUrl: string[]; withoutNetworks?: boolean; accept?: string; head?: string; freeze: string[] }
