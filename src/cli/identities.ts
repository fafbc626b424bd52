import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { IdentityKeys } from '../app.ts'
import { readSome } from '../config.ts'
import { identityKeysOf } from '../oauth/identity-keys.ts'
import { readPublicKeys } from '../oauth/keys.ts'

/** The keys by which identities are checked, as the authorization server has published them; none where it never started. */
export async function publishedIdentityKeys(): Promise<IdentityKeys> {
  const { AUTH_KEYS_FILE, AUTH_JWKS_FILE, DATA_DIR } = readSome(process.env, ['AUTH_KEYS_FILE', 'AUTH_JWKS_FILE', 'DATA_DIR']) // prettier-ignore
  const keysFile = AUTH_KEYS_FILE ?? join(DATA_DIR, 'auth-keys.json')
  const file = AUTH_JWKS_FILE ?? `${keysFile.replace(/\.json$/, '')}.public.json`
  return identityKeysOf(existsSync(file) ? (await readPublicKeys(file)).identities : [])
}
