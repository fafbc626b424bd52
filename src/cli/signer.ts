import { Command } from 'commander'
import { become } from './become.ts'
import type { Shell } from './shell.ts'
import { collect } from './options.ts'

/**
 * `chatelaine signer …`: the signer and its tools are programs of their own, which take SIGNER_… settings and share
 * nothing with the server. Each takes the place of this process: there is nobody between it and what watches over it.
 */
export function signer(shell: Shell): Command {
  const command = new Command('signer').description('the signer, a separate program; uses the settings SIGNER_…')
  command
    .command('create-key')
    .description('create the master key (KEK) of a new signer: SIGNER_KEK_FILE; never overwrites a file')
    .action(() => become(shell, 'programs/create-key.ts', []))
  command
    .command('run')
    .description('run the signer until SIGTERM; prints `ready` when it listens')
    .option('--development', 'create a master key (KEK) if there is none, and allow what production forbids')
    .action(({ development }: { development?: true }) =>
      become(shell, 'main.ts', development === undefined ? [] : ['--development']),
    )
  command
    .command('verify')
    .description('verify the whole store: ledger, witness, every signature; works beside a running signer')
    .argument('[folder]', 'default SIGNER_DIR')
    .action((folder?: string) => become(shell, 'programs/verify.ts', folder === undefined ? [] : [folder]))
  command
    .command('accept-restore')
    .description('show what a restored store has lost, and accept it; the signer must not run')
    .option(
      '--rpc-url <url>',
      'node of a network: no nonce below its transaction counts will be signed; repeat for each, or `-` to read them',
      collect,
      [],
    )
    .option('--without-networks', 'ask no network: nonces that were lost may then be signed again')
    .option(
      '--head <file>',
      'newest head that the server has kept, from `chatelaine signing-log show --json`: accepted with it',
    )
    .option(
      '--freeze <subject>',
      'freeze what the copy has lost: `everything`, or as one word `user ID`; repeat for each',
      collect,
      [],
    )
    .option('--accept <record>', 'confirm: the record that this command shows without this option')
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
    .description(
      'take keys that the store has lost from the file of `chatelaine account export-keys`; the signer must not run',
    )
    .argument('<file>', 'what the server keeps of them, useless without the master key (KEK)')
    .option(
      '--identity <key>',
      'take only those whose address this identity has attested: the key of the signer whose disk is lost',
    )
    .action((file: string, { identity }: { identity?: string }) =>
      become(shell, 'programs/restore-keys.ts', [file, ...(identity === undefined ? [] : ['--identity', identity])]),
    )
  const shares = command
    .command('kek-shares')
    .description('shares of a master key (KEK) in a file, of which some give it and fewer say nothing of it')
  shares
    .command('split')
    .description('print the shares of the master key, or write each to a file')
    .requiredOption('--of <number>', 'how many shares')
    .requiredOption('--need <number>', 'how many of them give the key')
    .option('--to <dir>', 'folder for a file each, apart from the key and from SIGNER_DIR')
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
    .description('bring keys from keystores or from `export-all` of another installation; asks a running signer')
    .argument('<file>', 'lines of JSON: docs/guides/leaving.md')
    .requiredOption('--manifest <file>', 'file to write: users and addresses, for `chatelaine account import`')
    .option('--recipient-key <file>', 'what `recipient-key` created: the lines are of `export-all`')
    .option('--password-file <file>', 'password of the keystores: the lines have keystores (Web3 Secret Storage v3)')
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
    .description('create a key pair that keys can be sealed to, and print its public half; never overwrites a file')
    .argument('<file>', 'file to create: the private half')
    .action((file: string) => become(shell, 'programs/export-all.ts', ['recipient-key', file]))
  command
    .command('export-all')
    .description('write all keys, sealed to a recipient; needs SIGNER_EXPORT_ALL=on; asks a running signer')
    .argument('<file>', 'file to create')
    .requiredOption('--to-recipient <key>', 'public key that `recipient-key` printed where the keys are going')
    .action((file: string, { toRecipient }: { toRecipient: string }) =>
      become(shell, 'programs/export-all.ts', ['export-all', file, '--to-recipient', toRecipient]),
    )
  command
    .command('create-backup-key')
    .description('create what opens backups (an age identity) in a file, and print its recipient; needs no age program')
    .argument('<file>', 'file to create; keep it away from the backups, and not on this machine')
    .action((file: string) => become(shell, 'programs/create-backup-key.ts', [file]))
  command
    .command('backup')
    .description(
      'copy the store beside a running signer into one file, encrypted to recipients (age); never the master key (KEK)',
    )
    .requiredOption(
      '--to <file>',
      'file to create, apart from SIGNER_DIR and the master key; FILE.json beside it says what is in it',
    )
    .requiredOption('--recipient <age1…>', 'who can open it; repeat for each', collect)
    .action(({ to, recipient }: { to: string; recipient: string[] }) =>
      become(shell, 'programs/backup.ts', ['--to', to, ...recipient.flatMap((one) => ['--recipient', one])]),
    )
  command
    .command('restore')
    .description(
      'restore a backup into SIGNER_DIR, which must be empty; nothing is signed on it before `accept-restore`',
    )
    .argument('<file>', 'file of `chatelaine signer backup`')
    .requiredOption('--identity <file>', 'file with the identity of a recipient; repeat for each', collect)
    .action((file: string, { identity }: { identity: string[] }) =>
      become(shell, 'programs/restore.ts', [file, ...identity.flatMap((one) => ['--identity', one])]),
    )
  command
    .command('drill')
    .description(
      'try a backup: restore it into a temporary folder, check it, derive every address, and delete it; touches no store',
    )
    .argument('<file>', 'file of `chatelaine signer backup`')
    .requiredOption('--identity <file>', 'file with the identity of a recipient; repeat for each', collect)
    .option('--in <folder>', 'where the temporary folder is made, with room for the store')
    .action((file: string, given: { identity: string[]; in?: string }) =>
      become(shell, 'programs/drill.ts', [
        file,
        ...given.identity.flatMap((one) => ['--identity', one]),
        ...(given.in === undefined ? [] : ['--in', given.in]),
      ]),
    )
  command
    .command('rotate-kek')
    .description(
      'wrap all data keys by the master key at SIGNER_KEK_NEXT_FILE; asks a running signer, which keeps signing',
    )
    .action(() => become(shell, 'programs/rotate.ts', ['rotateKek']))
  command
    .command('rotate-dek')
    .description('wrap all keys by a new data key; asks a running signer, which keeps signing')
    .action(() => become(shell, 'programs/rotate.ts', ['rotateDek']))
  command
    .command('trust-key')
    .description(
      'show which keys of the authorization server are trusted and which are offered; beside a running signer, too',
    )
    .option('--accept <fingerprint>', 'trust a key that SIGNER_JWKS_FILE offers; repeat for each', collect, [])
    .option('--remove <fingerprint>', 'trust a key no more; repeat for each', collect, [])
    .action(({ accept, remove }: { accept: string[]; remove: string[] }) =>
      become(shell, 'programs/trust-key.ts', [
        ...accept.flatMap((one) => ['--accept', one]),
        ...remove.flatMap((one) => ['--remove', one]),
      ]),
    )
  command
    .command('policy-keys')
    .description(
      'show which keys may sign policies and how many of them it takes; beside a running signer, too (docs/guides/policy.md)',
    )
    .option('--offer <file>', 'public key from `chatelaine policy keygen`; repeat for each', collect, [])
    .option('--accept <fingerprint>', 'trust an offered key; repeat for each', collect, [])
    .option('--remove <fingerprint>', 'trust a key no more; repeat for each', collect, [])
    .option('--threshold <number>', 'how many of the keys have to sign a policy')
    .action((options: { offer: string[]; accept: string[]; remove: string[]; threshold?: string }) =>
      become(shell, 'programs/policy-keys.ts', [
        ...(['offer', 'accept', 'remove'] as const).flatMap((name) =>
          options[name].flatMap((one) => [`--${name}`, one]),
        ),
        ...(options.threshold === undefined ? [] : ['--threshold', options.threshold]),
      ]),
    )
  const subject = 'everything, or `network CHAIN_ID`, `user ID`, `application ID`'
  command
    .command('freeze')
    .description(
      'sign nothing for a person, an application, a network or everything from now on, whatever token is shown; asks a running signer',
    )
    .argument('<subject...>', subject)
    .action((words: string[]) => become(shell, 'programs/freeze.ts', ['freeze', ...words]))
  command
    .command('unfreeze')
    .description('sign again for what was frozen; asks a running signer')
    .argument('<subject...>', subject)
    .action((words: string[]) => become(shell, 'programs/freeze.ts', ['unfreeze', ...words]))
  command
    .command('frozen')
    .description('list what is frozen, here or by the server; asks a running signer')
    .action(() => become(shell, 'programs/freeze.ts', ['frozen']))
  command
    .command('grant-withdrawal')
    .description(
      'let one withdrawal from a sponsor be signed within an hour, for `chatelaine sponsor withdraw`, in the place of an earlier grant for it on this network; asks a running signer',
    )
    .argument('<sponsor>', 'name of the sponsor')
    .argument('<chain-id>', 'chain id of the network')
    .argument('<address>', 'address that gets it')
    .argument('<wei>', 'how much at most, with the fee')
    .action((...words: string[]) => become(shell, 'programs/withdrawal.ts', words.slice(0, 4)))
  return command
}

type AcceptOptions = { rpcUrl: string[]; withoutNetworks?: boolean; accept?: string; head?: string; freeze: string[] }
