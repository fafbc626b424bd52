import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { readSome } from '../config.ts'
import { loadKeys } from '../oauth/keys.ts'

/** `chatelaine auth-keys create`: the keys of the authorization server, which production does not make by itself. */
export function authKeys(): Command {
  const command = new Command('auth-keys').description('keys of the authorization server')
  command
    .command('create')
    .description('write new keys to AUTH_KEYS_FILE and their public half beside it; never over a file that is there')
    .action(create)
  return command
}

async function create(): Promise<void> {
  const { AUTH_KEYS_FILE: keysFile, AUTH_JWKS_FILE } = readSome(process.env, ['AUTH_KEYS_FILE', 'AUTH_JWKS_FILE'])
  if (keysFile === undefined) throw new Error('AUTH_KEYS_FILE is missing: it names the file to write.')
  if (existsSync(keysFile))
    throw new Error(`${keysFile} is there already: new keys in its place would end every session.`)
  const jwksFile = AUTH_JWKS_FILE ?? `${keysFile.replace(/\.json$/, '')}.public.json`
  await loadKeys({ keysFile, jwksFile, create: true })
  console.log(`Private keys: ${keysFile} (keep it to the server's user)\nPublic keys:  ${jwksFile} (SIGNER_JWKS_FILE)`)
}
