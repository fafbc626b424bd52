import { existsSync } from 'node:fs'
import type { IdentityKeys } from '../app.ts'
import type { Environment } from '../config.ts'
import { identityKeysOf } from '../oauth/identity-keys.ts'
import { readPublicKeys } from '../oauth/keys.ts'
import { keyFiles } from './key-files.ts'

/** The keys by which identities are checked, as the authorization server has published them; none where it never started. */
export async function publishedIdentityKeys(env: Environment): Promise<IdentityKeys> {
  const { jwksFile } = keyFiles(env)
  return identityKeysOf(existsSync(jwksFile) ? (await readPublicKeys(jwksFile)).identities : [])
}
