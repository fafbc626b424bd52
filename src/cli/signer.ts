import { fileURLToPath } from 'node:url'
import { Command } from 'commander'

/**
 * `chatelaine signer …`: the signer and its tools are programs of their own, which take SIGNER_… settings and share
 * nothing with the server. Each takes the place of this process: there is nobody between it and what watches over it.
 */
export function signer(): Command {
  const command = new Command('signer').description('the signer, a separate program; uses the settings SIGNER_…')
  command
    .command('create-key')
    .description('create the master key (KEK) of a new signer: SIGNER_KEK_FILE; never overwrites a file')
    .action(() => become('create-key.ts', []))
  command
    .command('run')
    .description('run the signer until SIGTERM; prints `ready` when it listens')
    .option('--development', 'create a master key (KEK) if there is none, and allow what production forbids')
    .action(({ development }: { development?: true }) =>
      become('main.ts', development === undefined ? [] : ['--development']),
    )
  command
    .command('verify')
    .description('verify the whole store: ledger, witness, every signature; works beside a running signer')
    .argument('[folder]', 'default SIGNER_DIR')
    .action((folder?: string) => become('verify.ts', folder === undefined ? [] : [folder]))
  command
    .command('accept-restore')
    .description('show what a restored store has lost, and accept it; the signer must not run')
    .option(
      '--rpc-url <url>',
      'node of a network: no nonce below its transaction counts will be signed; repeat for each, or `-` to read them',
      collect,
      [],
    )
    .option('--accept <record>', 'confirm: the record that this command shows without this option')
    .action(({ rpcUrl, accept }: { rpcUrl: string[]; accept?: string }) =>
      become('accept-restore.ts', [
        ...rpcUrl.flatMap((url) => ['--rpc-url', url]),
        ...(accept === undefined ? [] : ['--accept', accept]),
      ]),
    )
  command
    .command('trust-key')
    .description(
      'show which keys of the authorization server are trusted and which are offered; beside a running signer, too',
    )
    .option('--accept <fingerprint>', 'trust a key that SIGNER_JWKS_FILE offers; repeat for each', collect, [])
    .option('--remove <fingerprint>', 'trust a key no more; repeat for each', collect, [])
    .action(({ accept, remove }: { accept: string[]; remove: string[] }) =>
      become('trust-key.ts', [
        ...accept.flatMap((one) => ['--accept', one]),
        ...remove.flatMap((one) => ['--remove', one]),
      ]),
    )
  const subject = 'everything, or `network CHAIN_ID`, `user ID`, `application ID`'
  command
    .command('freeze')
    .description(
      'sign nothing for a person, an application, a network or everything from now on, whatever token is shown; asks a running signer',
    )
    .argument('<subject...>', subject)
    .action((words: string[]) => become('freeze.ts', ['freeze', ...words]))
  command
    .command('unfreeze')
    .description('sign again for what was frozen; asks a running signer')
    .argument('<subject...>', subject)
    .action((words: string[]) => become('freeze.ts', ['unfreeze', ...words]))
  command
    .command('frozen')
    .description('list what is frozen, here or by the server; asks a running signer')
    .action(() => become('freeze.ts', ['frozen']))
  return command
}

const collect = (url: string, before: string[]): string[] => [...before, url]

/** SIGUSR1 opens a debugger to every user of the machine, `__proto__` is a way to the prototype of every object. */
const HARDENED = ['--disable-sigusr1', '--disable-proto=throw']
/**
 * MB of each half of the engine's heap for what is new: it doubles under load up to 16, at some time within hours, which looks like a
 * leak (+25 MB of 120; bench/signer-memory.ts). So many it has within seconds.
 */
const NEW_SPACE = '--max-semi-space-size=8'

function become(program: string, args: string[]): never {
  const file = fileURLToPath(new URL(`../signer/${program}`, import.meta.url))
  // Windows has no such thing, and no Unix sockets as the signer needs them.
  if (process.execve === undefined) throw new Error(`This system does not support that here: run node ${file}`)
  // Options of Node from an environment that was made for another program could load code or open a debugger.
  const { NODE_OPTIONS: _dropped, ...env } = process.env
  return process.execve(
    process.execPath,
    [process.execPath, ...HARDENED, NEW_SPACE, ...process.execArgv, file, ...args],
    env,
  )
}
