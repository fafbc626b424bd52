/**
 * cli: `chatelaine …`, the commands of an operator, one file each.
 * Owns: arguments, output, and finding the installation: its database, or the running server that holds the embedded
 *   one.
 * Does not own: what a command does; it calls the verb of a slice, as the operator API does.
 */

import { readFileSync } from 'node:fs'
import type { WriteStream } from 'node:tty'
import { Command } from 'commander'
import type { Shell } from './shell.ts'

/** One of the first words: its line of the help, and the file that has the rest of it. */
type FirstWord = {
  name: string
  arguments?: string
  description: string
  add: (program: Command, shell: Shell) => Promise<unknown>
}

const FIRST_WORDS: readonly FirstWord[] = [
  {
    name: 'account',
    description: 'accounts of people',
    add: async (program, shell) => program.addCommand((await import('./account.ts')).account(shell)),
  },
  {
    name: 'actions',
    description: 'list actions of operators, by command and by the operator API',
    add: async (program, shell) => program.addCommand((await import('./actions.ts')).actions(shell)),
  },
  {
    name: 'app',
    description: 'applications: register, change, suspend',
    add: async (program, shell) => program.addCommand((await import('./app.ts')).app(shell)),
  },
  {
    name: 'auth',
    description: 'the authorization server as a program of its own: docs/operate/split-deployment.md',
    add: async (program, shell) => program.addCommand((await import('./auth.ts')).auth(shell)),
  },
  {
    name: 'database',
    description: 'the database of an installation whose programs are apart',
    add: async (program, shell) => program.addCommand((await import('./database-roles.ts')).database(shell)),
  },
  {
    name: 'network',
    description: 'manage networks: add from a preset or manually, list, remove',
    add: async (program, shell) => program.addCommand((await import('./network.ts')).network(shell)),
  },
  {
    name: 'auth-keys',
    description: 'keys of the authorization server',
    add: async (program, shell) => program.addCommand((await import('./auth-keys.ts')).authKeys(shell)),
  },
  {
    name: 'operator-token',
    description: 'tokens of the operator API',
    add: async (program, shell) => program.addCommand((await import('./operator-token.ts')).operatorToken(shell)),
  },
  {
    name: 'policy',
    description: 'policies of the signer: read, sign and try them; changes nothing in force',
    add: async (program, shell) => program.addCommand((await import('./policy.ts')).policy(shell)),
  },
  {
    name: 'provider',
    description: 'check identity providers before people use them',
    add: async (program, shell) => program.addCommand((await import('./provider.ts')).provider(shell)),
  },
  {
    name: 'signer',
    description: 'the signer, a separate program; uses the settings SIGNER_…',
    add: async (program, shell) => program.addCommand((await import('./signer.ts')).signer(shell)),
  },
  {
    name: 'signing-log',
    description: 'the newest signed head of the signer’s log, which every server shows the signer',
    add: async (program, shell) => program.addCommand((await import('./signing-log.ts')).signingLog(shell)),
  },
  {
    name: 'sponsor',
    description:
      'accounts that pay for the gas of people’s writes, on networks whose gas is `topup` or `sponsor`: docs/operate/gas/overview.md',
    add: async (program, shell) => program.addCommand((await import('./sponsor.ts')).sponsor(shell)),
  },
  {
    name: 'token',
    arguments: '[options] <user>',
    description:
      'an access token for a user of the development sign-in, from the server that runs on DATA_DIR; it stays valid until it expires, even if access is revoked, and is not bound to a key, even if the application requires that',
    add: async (program, shell) => program.addCommand((await import('./token.ts')).token(shell)),
  },
  {
    name: 'audit',
    arguments: '[options]',
    description:
      'compare the history of final blocks with a node, or with --sums what its entries add up to with balances; exits with code 1 if they differ',
    add: async (program, shell) => (await import('./audit.ts')).addAudit(program, shell),
  },
  {
    name: 'backfill',
    arguments: '[options]',
    description: 'give accounts of a network their past transfers now, as BACKFILL does in the background',
    add: async (program, shell) => (await import('./backfill.ts')).addBackfill(program, shell),
  },
  {
    name: 'backup',
    arguments: '[options]',
    description:
      'copy database and files of the server, beside running servers, into one file, encrypted to recipients (age); the signer’s side: `signer backup`',
    add: async (program, shell) => (await import('./backup.ts')).addBackup(program, shell, versionOf()),
  },
  {
    name: 'restore',
    arguments: '[options] <file>',
    description:
      'restore a file of `chatelaine backup` into an empty database, PostgreSQL or embedded; all of it is checked first, and nothing is overwritten',
    add: async (program, shell) => (await import('./backup.ts')).addRestore(program, shell),
  },
  {
    name: 'drill',
    arguments: '[options] <file>',
    description:
      'try a file of `chatelaine backup`: restore it into a temporary database, check it and every attested address, and delete it; touches no installation',
    add: async (program, shell) => (await import('./backup.ts')).addDrill(program, shell),
  },
  {
    name: 'verify-log',
    arguments: '[options] [store]',
    description:
      'check the signer’s log, or two checkpoints of it, with code that shares nothing with the signer; exit code 1: it was altered, 2: it could not be checked',
    add: async (program, shell) => (await import('./verify-log.ts')).addVerifyLog(program, shell),
  },
]

/**
 * `chatelaine <command>`: what an operator does beside the running server. Each command is a file of its own; they
 * take the same settings as the server. Answers go to standard output, everything else to standard error; the exit
 * code is 0 or 1. Of the commands only the one that is asked for is loaded: the rest is two thirds of a start.
 */
export async function openProgram(words: readonly string[], shell: Shell): Promise<Command> {
  const asked = words.find((word) => !word.startsWith('-') && word !== 'help')
  return open(shell, (word) => word.name === asked)
}

/** Every command with all that it has. */
export const openWholeProgram = (shell: Shell): Promise<Command> => open(shell, () => true)

async function open(shell: Shell, isLoaded: (word: FirstWord) => boolean): Promise<Command> {
  const program = new Command('chatelaine')
    .description(
      'Commands for a Chatelaine installation. They use the settings of the server: DATABASE_URL, DATA_DIR, NETWORKS_FILE.',
    )
    .version(versionOf(), '--version', 'print the version')
    .showHelpAfterError('Add --help for the options.')
    .exitOverride()
    .configureOutput(outputOf(shell))
  for (const word of FIRST_WORDS) {
    if (isLoaded(word)) await word.add(program, shell)
    else program.command(word.name).description(word.description)
  }
  inherit(program)
  const lines = new Map(FIRST_WORDS.map((word) => [word.name, [word.name, word.arguments ?? ''].join(' ').trim()]))
  const { subcommandTerm } = program.createHelp()
  program.configureHelp({
    // Of a command that is not loaded Commander does not know what follows it.
    subcommandTerm: (command) => lines.get(command.name()) ?? subcommandTerm(command),
  })
  return program
}

/** Where Commander writes help and what is wrong with the words: as wide as the terminal, and 80 columns where there is none. */
const outputOf = (shell: Shell) => ({
  writeOut: (text: string) => void shell.stdout.write(text),
  writeErr: (text: string) => void shell.stderr.write(text),
  getOutHelpWidth: () => (shell.stdout as Partial<WriteStream>).columns ?? 80,
  getErrHelpWidth: () => (shell.stderr as Partial<WriteStream>).columns ?? 80,
})

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}

/** Settings of the program that its commands do not take over by themselves. */
function inherit(parent: Command): void {
  for (const command of parent.commands) {
    command.copyInheritedSettings(parent)
    inherit(command)
  }
}
