import { join } from 'node:path'
import { readSome, type Environment } from '../config.ts'

/** Returns the paths of the authorization server keys, private and public, from the server's settings. */
export function keyFiles(env: Environment): { keysFile: string; jwksFile: string } {
  const { AUTH_KEYS_FILE, AUTH_JWKS_FILE, DATA_DIR } = readSome(env, ['AUTH_KEYS_FILE', 'AUTH_JWKS_FILE', 'DATA_DIR']) // prettier-ignore
  const keysFile = AUTH_KEYS_FILE ?? join(DATA_DIR, 'auth-keys.json')
  return { keysFile, jwksFile: AUTH_JWKS_FILE ?? `${keysFile.replace(/\.json$/, '')}.public.json` }
}
