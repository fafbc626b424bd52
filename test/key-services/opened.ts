import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Kek } from '../../src/signer/kek/provider.ts'
import { openAwsKms } from '../../src/signer/kek/aws-kms.ts'
import { openGcpKms } from '../../src/signer/kek/gcp-kms.ts'
import { readKekSetting, type KekFiles } from '../../src/signer/kek/settings.ts'
import { openVault } from '../../src/signer/kek/vault.ts'
import { awsKmsStandIn } from './aws-kms.ts'
import { gcpKmsStandIn } from './gcp-kms.ts'
import type { StandIn } from './server.ts'
import { vaultStandIn } from './vault.ts'

type Context = { after: (end: () => void | Promise<void>) => void }

/** Short, so that a service that hangs is found soon; long enough for one that is slow on a loaded machine. */
const PATIENT = { answerMs: 30_000, pauseMs: 1 }
export const IMPATIENT = { answerMs: 50, pauseMs: 1 }

/** Files of this user alone, gone after the test. */
export function secretFiles(t: Context) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-key-service-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return {
    folder,
    put(name: string, content: string | Buffer) {
      writeFileSync(join(folder, name), content, { mode: 0o600 })
      return join(folder, name)
    },
  }
}

const NO_FILES: KekFiles = { pinFile: undefined, tokenFile: undefined, credentialsFile: undefined, caFile: undefined }

/** As the settings open it, with other patience. */
export async function openNamed(text: string, files: Partial<KekFiles>, patience = PATIENT): Promise<Kek> {
  const setting = readKekSetting({ name: 'SIGNER_KEK', text, folder: '', ...NO_FILES, ...files })
  if (setting.provider === 'vault') return openVault(setting, patience)
  if (setting.provider === 'aws-kms') return openAwsKms(setting, patience)
  if (setting.provider === 'gcp-kms') return openGcpKms(setting, patience)
  throw new Error(`${setting.provider} is no key service`)
}

/** A key service that is stood in for, and how a setting names it. */
export type KeyService = StandIn & {
  key: { rotate: () => void; newest: () => number }
  uri: string
  files: Partial<KekFiles>
  /** what must be in no sentence */
  secrets: string[]
}

export const keyServices: Record<'vault' | 'aws-kms' | 'gcp-kms', (t: Context) => Promise<KeyService>> = {
  async vault(t) {
    const vault = await vaultStandIn(t)
    return { ...vault, files: { tokenFile: secretFiles(t).put('token', 'hvs.first\n') }, secrets: ['hvs.first'] }
  },
  async 'aws-kms'(t) {
    const aws = await awsKmsStandIn(t)
    const credentialsFile = secretFiles(t).put('credentials', aws.credentials())
    return { ...aws, files: { credentialsFile }, secrets: ['AKIASTANDIN', 'secret/of+the/stand-in', 'session/token'] }
  },
  async 'gcp-kms'(t) {
    const gcp = await gcpKmsStandIn(t)
    const credentialsFile = secretFiles(t).put('account.json', gcp.credentials())
    return { ...gcp, files: { credentialsFile }, secrets: ['ya29.', 'PRIVATE KEY', 'gserviceaccount'] }
  },
}
