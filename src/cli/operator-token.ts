import { appendFile, mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Command } from 'commander'
import { readSome } from '../config.ts'
import { isOperatorName, isRole, newOperatorToken, readLines } from '../operator/auth.ts'
import { print } from './print.ts'
import { inShell, type Shell } from './shell.ts'

type OperatorTokenOptions = { name: string; role: string; json?: boolean }

/** Builds `chatelaine operator-token create`: a token for the operator API, with the name of its holder. */
export function operatorToken(shell: Shell): Command {
  const command = new Command('operator-token').description('manage operator API tokens')
  command
    .command('create')
    .description('create a token, shown once, and add its line to OPERATOR_TOKEN_FILE; remove a line to revoke a token')
    .requiredOption('--name <name>', 'holder of the token; actions are recorded under this name')
    .option('--role <role>', '`operator` may change things, `viewer` only reads', 'operator')
    .option('--json', 'print JSON')
    .action(inShell(shell, create))
  return command
}

async function create(shell: Shell, { name, role, ...given }: OperatorTokenOptions): Promise<void> {
  const { OPERATOR_TOKEN_FILE: file } = readSome(shell.env, ['OPERATOR_TOKEN_FILE'])
  if (file === undefined) throw new Error('OPERATOR_TOKEN_FILE is missing. Set it to the file of token hashes.')
  if (!isOperatorName(name)) throw new Error('--name must be one word of letters, digits and . _ @ -, at most 64.')
  if (!isRole(role)) throw new Error('--role must be operator or viewer.')
  const { token, hash } = newOperatorToken()
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const there = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new Error(`OPERATOR_TOKEN_FILE cannot be read (${error.code}).`)
  })
  // Check the existing lines, so that a wrong path does not damage another file. Complete the last line if it has no
  // line end.
  readLines(there)
  const end = there === '' || there.endsWith('\n') ? '' : '\n'
  await appendFile(file, `${end}${hash} ${name} ${role}\n`, { mode: 0o600 })
  print(
    shell,
    given,
    { token, hash, name, role },
    `${token}\n\nThe token is shown only once. The server accepts it after its next start.`,
  )
}
