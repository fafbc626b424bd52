import { appendFile, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Command } from 'commander'
import { readSome } from '../config.ts'
import { newOperatorToken } from '../operator/door.ts'
import { print } from './print.ts'

/** `chatelaine operator-token create`: a token for the operator API. */
export function operatorToken(): Command {
  const command = new Command('operator-token').description('tokens of the operator API')
  command
    .command('create')
    .description('show a new token once and add its hash to OPERATOR_TOKEN_FILE; remove a line to end a token')
    .option('--json', 'print JSON')
    .action(create)
  return command
}

async function create(given: { json?: boolean }): Promise<void> {
  const { OPERATOR_TOKEN_FILE: file } = readSome(process.env, ['OPERATOR_TOKEN_FILE'])
  if (file === undefined) throw new Error('OPERATOR_TOKEN_FILE is missing: it names the file of hashes.')
  const { token, hash } = newOperatorToken()
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await appendFile(file, `${hash}\n`, { mode: 0o600 })
  print(given, { token, hash }, `${token}\n\nShown this once. The server takes it after its next start.`)
}
