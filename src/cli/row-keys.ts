import { existsSync } from 'node:fs'
import { readSome, type Environment } from '../config.ts'
import { loadKeys } from '../oauth/keys.ts'
import { rowKeysOf } from '../oauth/row-keys.ts'
import type { RowKeys } from '../store/row-mac.ts'
import { keyFiles } from './key-files.ts'

/**
 * The keys by which the authorization server knows what a command wrote; made in development, where the server would make them.
 * @throws Error  naming the setting: without them it would count as someone else's
 */
export async function readRowKeys(env: Environment): Promise<RowKeys> {
  const isDevelopment = env.NODE_ENV !== 'production'
  const { AUTH_KEYS_FILE } = readSome(env, ['AUTH_KEYS_FILE'])
  if (!isDevelopment && AUTH_KEYS_FILE === undefined)
    throw new Error('AUTH_KEYS_FILE is missing: what a command changes is authenticated by a key in it.')
  const files = keyFiles(env)
  if (!isDevelopment && !existsSync(files.keysFile))
    throw new Error('AUTH_KEYS_FILE names no file: chatelaine auth-keys create comes first.')
  return rowKeysOf((await loadKeys({ ...files, create: isDevelopment })).rows)
}
