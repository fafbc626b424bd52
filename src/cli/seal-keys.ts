import { existsSync } from 'node:fs'
import { readSome, type Environment } from '../config.ts'
import { loadKeys, readPublicKeys } from '../oauth/keys.ts'
import { sealKeysOf } from '../oauth/seal-keys.ts'
import type { SealKeys } from '../store/seal.ts'
import { keyFiles } from './key-files.ts'

/**
 * Reads the keys with which a command seals the rows that it writes. In development it creates missing keys, as the
 * server would.
 * @throws Error  naming the setting: without the keys, the rows would count as forged
 */
export async function readSealKeys(env: Environment): Promise<SealKeys> {
  const isDevelopment = env.NODE_ENV !== 'production'
  const { AUTH_KEYS_FILE } = readSome(env, ['AUTH_KEYS_FILE'])
  if (!isDevelopment && AUTH_KEYS_FILE === undefined)
    throw new Error('AUTH_KEYS_FILE is missing: this command seals its changes with a key in that file.')
  const files = keyFiles(env)
  if (!isDevelopment && !existsSync(files.keysFile))
    throw new Error('The file at AUTH_KEYS_FILE does not exist. Run chatelaine auth-keys create first.')
  return sealKeysOf((await loadKeys({ ...files, create: isDevelopment })).seals)
}

/** Reads the public seal keys that the authorization server has published; none if it never started. */
export async function publishedSealKeys(env: Environment): Promise<SealKeys> {
  const { jwksFile } = keyFiles(env)
  return sealKeysOf(existsSync(jwksFile) ? (await readPublicKeys(jwksFile)).seals : [])
}
