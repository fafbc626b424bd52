/**
 * cli: `chatelaine …`, the commands of an operator, one file each.
 * Owns: arguments, output, and finding the installation: its database, or the running server that holds the embedded
 *   one.
 * Does not own: what a command does; it calls the verb of a slice, as the operator API does.
 */

import type { WriteStream } from 'node:tty'
import { Command } from 'commander'
import { VERSION } from '../version.ts'
import type { Shell } from './shell.ts'

/** A top-level command: its line in the help, and a function that loads the rest. */
type FirstWord = {
  name: string
  group: 'Setup' | 'Operate' | 'Recover' | 'Develop'
  /** the OS user who runs it */
  user: string
  arguments?: string
  description: string
  add: (program: Command, shell: Shell) => Promise<unknown>
}

const SERVER = 'the server’s user'

const FIRST_WORDS: readonly FirstWord[] = [
  {
    name: 'app',
    group: 'Setup',
    user: SERVER,
    description: 'manage applications',
    add: async (program, shell) => program.addCommand((await import('./app.ts')).app(shell)),
  },
  {
    name: 'auth',
    group: 'Setup',
    user: 'the authorization server’s user',
    description: 'run the authorization server as a separate program: docs/operate/split-deployment.md',
    add: async (program, shell) => program.addCommand((await import('./auth.ts')).auth(shell)),
  },
  {
    name: 'database',
    group: 'Setup',
    user: 'any user, with the connection of the tables’ owner',
    description: 'manage the database roles of a split deployment',
    add: async (program, shell) => program.addCommand((await import('./database-roles.ts')).database(shell)),
  },
  {
    name: 'network',
    group: 'Setup',
    user: SERVER,
    description: 'manage networks',
    add: async (program, shell) => program.addCommand((await import('./network.ts')).network(shell)),
  },
  {
    name: 'auth-keys',
    group: 'Setup',
    user: SERVER,
    description: 'manage the keys of the authorization server',
    add: async (program, shell) => program.addCommand((await import('./auth-keys.ts')).authKeys(shell)),
  },
  {
    name: 'operator',
    group: 'Setup',
    user: 'the authorization server’s user',
    description: 'manage operators of the console: docs/operate/console.md',
    add: async (program, shell) => program.addCommand((await import('./operator.ts')).operator(shell)),
  },
  {
    name: 'operator-token',
    group: 'Setup',
    user: SERVER,
    description: 'manage operator API tokens',
    add: async (program, shell) => program.addCommand((await import('./operator-token.ts')).operatorToken(shell)),
  },
  {
    name: 'policy',
    group: 'Setup',
    user: 'any user; `replay` as the signer’s user',
    description: 'check, sign and replay signer policies; never changes the policy in force',
    add: async (program, shell) => program.addCommand((await import('./policy.ts')).policy(shell)),
  },
  {
    name: 'provider',
    group: 'Setup',
    user: SERVER,
    description: 'check identity providers before users sign in with them',
    add: async (program, shell) => program.addCommand((await import('./provider.ts')).provider(shell)),
  },
  {
    name: 'signer',
    group: 'Setup',
    user: 'the signer’s user',
    description: 'run and manage the signer, a separate program with SIGNER_… settings',
    add: async (program, shell) => program.addCommand((await import('./signer.ts')).signer(shell)),
  },
  {
    name: 'sponsor',
    group: 'Setup',
    user: SERVER,
    description: 'manage sponsors, which pay users’ gas: docs/operate/gas/overview.md',
    add: async (program, shell) => program.addCommand((await import('./sponsor.ts')).sponsor(shell)),
  },
  {
    name: 'webhook',
    group: 'Operate',
    user: SERVER,
    description: 'manage webhooks of applications: docs/build/webhooks.md',
    add: async (program, shell) => program.addCommand((await import('./webhook.ts')).webhook(shell)),
  },
  {
    name: 'account',
    group: 'Operate',
    user: SERVER,
    description: 'manage user accounts',
    add: async (program, shell) => program.addCommand((await import('./account.ts')).account(shell)),
  },
  {
    name: 'actions',
    group: 'Operate',
    user: SERVER,
    description: 'read the audit log of operator actions',
    add: async (program, shell) => program.addCommand((await import('./actions.ts')).actions(shell)),
  },
  {
    name: 'audit',
    group: 'Operate',
    user: SERVER,
    arguments: '[options]',
    description:
      'compare the history of final blocks with a node, or its sums with balances (--sums); exit code 1: they differ',
    add: async (program, shell) => (await import('./audit.ts')).addAudit(program, shell),
  },
  {
    name: 'doctor',
    group: 'Operate',
    user: 'the server’s user; with the settings of the signer, the signer’s user',
    arguments: '[options]',
    description:
      'check this installation, and name each fault and its next step, without changing anything; exit code 0: no problems, 1: warnings, 2: errors',
    add: async (program, shell) => (await import('./doctor/doctor.ts')).addDoctor(program, shell),
  },
  {
    name: 'backfill',
    group: 'Operate',
    user: SERVER,
    arguments: '[options]',
    description: 'backfill past transfers of a network in the foreground',
    add: async (program, shell) => (await import('./backfill.ts')).addBackfill(program, shell),
  },
  {
    name: 'transaction',
    group: 'Operate',
    user: SERVER,
    description: 'cancel pending transactions and bump their fees',
    add: async (program, shell) => program.addCommand((await import('./transaction.ts')).transaction(shell)),
  },
  {
    name: 'signing-log',
    group: 'Recover',
    user: SERVER,
    description: 'show or replace the stored head of the signer’s log',
    add: async (program, shell) => program.addCommand((await import('./signing-log.ts')).signingLog(shell)),
  },
  {
    name: 'backup',
    group: 'Recover',
    user: SERVER,
    arguments: '[options]',
    description:
      'back up the server’s database and files into one encrypted file (age), while servers run; for the signer: `signer backup`',
    add: async (program, shell) => (await import('./backup.ts')).addBackup(program, shell, VERSION),
  },
  {
    name: 'restore',
    group: 'Recover',
    user: SERVER,
    arguments: '[options] <file>',
    description:
      'restore a backup of `chatelaine backup` into an empty database; checks everything first and overwrites nothing',
    add: async (program, shell) => (await import('./backup.ts')).addRestore(program, shell),
  },
  {
    name: 'drill',
    group: 'Recover',
    user: SERVER,
    arguments: '[options] <file>',
    description: 'test a backup of `chatelaine backup` in a temporary database; changes no installation',
    add: async (program, shell) => (await import('./backup.ts')).addDrill(program, shell),
  },
  {
    name: 'verify-log',
    group: 'Recover',
    user: 'any user who can read the copy',
    arguments: '[options] [store]',
    description:
      'verify the signer’s log, or two checkpoints of it, independently of the signer; exit code 1: altered, 2: not checked',
    add: async (program, shell) => (await import('./verify-log.ts')).addVerifyLog(program, shell),
  },
  {
    name: 'listen',
    group: 'Develop',
    user: 'any user; with `--user`, the server’s user',
    arguments: '[options]',
    description: 'send the events of an application to a local URL, signed and in order, as a webhook does',
    add: async (program, shell) => program.addCommand((await import('./listen.ts')).listen(shell)),
  },
  {
    name: 'token',
    group: 'Develop',
    user: SERVER,
    arguments: '[options] <user>',
    description:
      'print an access token for a development user. Revoking access does not end it, and it is never bound to a key',
    add: async (program, shell) => program.addCommand((await import('./token.ts')).token(shell)),
  },
]

/** The OS user who runs each top-level command, by its name. */
export const commandUsers = new Map(FIRST_WORDS.map(({ name, user }) => [name, user]))

/**
 * Builds the program `chatelaine <command>` with the settings of the server. Results go to standard output, everything
 * else to standard error; the exit code is 0 or 1 unless a command documents others. Only the requested command is
 * loaded: the others would cost two thirds of the start.
 */
export async function openProgram(words: readonly string[], shell: Shell): Promise<Command> {
  const asked = words.find((word) => !word.startsWith('-') && word !== 'help')
  return open(shell, (word) => word.name === asked)
}

/** Builds the program with all commands loaded. */
export const openWholeProgram = (shell: Shell): Promise<Command> => open(shell, () => true)

async function open(shell: Shell, isLoaded: (word: FirstWord) => boolean): Promise<Command> {
  const program = new Command('chatelaine')
    .description(
      'Commands for a Chatelaine installation. They use the settings of the server: DATABASE_URL, DATA_DIR, NETWORKS_FILE.',
    )
    .version(VERSION, '--version', 'print the version')
    .showHelpAfterError('Add --help for the options.')
    .exitOverride()
    .configureOutput(outputOf(shell))
  for (const word of FIRST_WORDS) {
    if (isLoaded(word)) await word.add(program, shell)
    else program.command(word.name).description(word.description)
  }
  for (const [index, command] of program.commands.entries()) command.helpGroup(`${FIRST_WORDS[index]!.group}:`)
  inherit(program)
  const lines = new Map(FIRST_WORDS.map((word) => [word.name, [word.name, word.arguments ?? ''].join(' ').trim()]))
  const { subcommandTerm } = program.createHelp()
  program.configureHelp({
    // Commander does not know the arguments of a command that is not loaded.
    subcommandTerm: (command) => lines.get(command.name()) ?? subcommandTerm(command),
  })
  return program
}

/** Directs Commander's help and errors to the shell, as wide as the terminal, or 80 columns without one. */
const outputOf = (shell: Shell) => ({
  writeOut: (text: string) => void shell.stdout.write(text),
  writeErr: (text: string) => void shell.stderr.write(text),
  getOutHelpWidth: () => (shell.stdout as Partial<WriteStream>).columns ?? 80,
  getErrHelpWidth: () => (shell.stderr as Partial<WriteStream>).columns ?? 80,
})

/** Copies settings of the program to its commands, which do not inherit them by themselves. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}
