import { isOpenToAll, readNodes } from '../../applications/nodes-file.ts'
import type { Diagnosis } from '../../findings.ts'
import { readProviders } from '../../oauth/federation/providers.ts'
import { readPrivateKeys, readPublicKeys } from '../../oauth/keys.ts'
import { keyFilesOf } from '../../open-auth.ts'
import { openOperatorDoor } from '../../operator/auth.ts'
import { refuseKeysInReach, refuseSecretsInReach } from '../../run.ts'
import { networksFileOf } from '../database.ts'
import type { Examined } from './patient.ts'
import { finding, ownWords, type FaultCode } from './faults.ts'

/** Checks the files that the settings name, by the functions that open them at startup. */
export async function checkFiles({ config, part }: Examined): Promise<Diagnosis[]> {
  // Development creates its files at the first start.
  if (config.NODE_ENV !== 'production') return []
  const { keysFile, jwksFile } = keyFilesOf(config)
  const isAuth = config.AUTH_SOCKET === undefined || part === 'auth'
  const file = networksFileOf(config)
  const found = await Promise.all([
    failing('secrets_in_reach', () =>
      part === 'auth' ? refuseKeysInReach('the authorization server', config) : refuseSecretsInReach(config),
    ),
    failing('token_keys_unusable', () => (isAuth ? readPrivateKeys(keysFile) : readPublicKeys(jwksFile))),
    isAuth && config.PROVIDERS_FILE !== undefined
      ? failing('providers_unusable', () => readProviders(config.PROVIDERS_FILE!))
      : [],
    openTo('providers_file_open', isAuth ? config.PROVIDERS_FILE : undefined, 'PROVIDERS_FILE'),
    isAuth ? failing('operator_tokens_unusable', () => openOperatorDoor(config)) : [],
    part === 'auth' ? [] : failing('networks_file_unusable', () => readNodes(file)),
    openTo('networks_file_open', part === 'auth' ? undefined : file, 'NETWORKS_FILE'),
  ])
  return found.flat()
}

async function failing(code: FaultCode, work: () => unknown): Promise<Diagnosis[]> {
  try {
    await work()
    return []
  } catch (error) {
    return [finding(code, ownWords(error))]
  }
}

async function openTo(code: FaultCode, file: string | undefined, setting: string): Promise<Diagnosis[]> {
  if (file === undefined || !(await isOpenToAll(file))) return []
  return [finding(code, `every user of this machine can read ${setting}`)]
}
