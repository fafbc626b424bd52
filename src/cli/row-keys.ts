import { existsSync } from 'node:fs'
import { readSome } from '../config.ts'
import { loadKeys } from '../oauth/keys.ts'
import { rowKeysOf } from '../oauth/row-keys.ts'
import type { RowKeys } from '../store/row-mac.ts'
import { keyFiles } from './key-files.ts'

/**
 * The keys by which the authorization server knows what a command wrote; made in development, where the server would make them.
 * @throws Error  naming the setting: without them it would count as someone else's
 */
export async function readRowKeys(): Promise<RowKeys> {
  const isDevelopment = process.env.NODE_ENV !== 'production'
  const { AUTH_KEYS_FILE } = readSome(process.env, ['AUTH_KEYS_FILE'])
  if (!isDevelopment && AUTH_KEYS_FILE === undefined)
    throw new Error('AUTH_KEYS_FILE is missing: what a command changes is authenticated by a key in it.')
  const files = keyFiles()
  if (!isDevelopment && !existsSync(files.keysFile))
    throw new Error('AUTH_KEYS_FILE names no file: chatelaine auth-keys create comes first.')
  return rowKeysOf(await loadKeys({ ...files, create: isDevelopment }))
}
