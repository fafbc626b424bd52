import { existsSync } from 'node:fs'
import { openKekFile } from './file.ts'
import { openPkcs11 } from './pkcs11.ts'
import type { Kek, KekSetting } from './provider.ts'

/** Opens the master key that a setting names. @throws StartError  if it cannot be used */
export async function openKek(setting: KekSetting): Promise<Kek>
/** Opens the same; null for a file that `rotate-kek` has not created yet. @throws StartError */
export async function openKek(setting: KekSetting, need: 'if there'): Promise<Kek | null>
export async function openKek(setting: KekSetting, need?: 'if there'): Promise<Kek | null> {
  switch (setting.provider) {
    case 'file':
      return need === 'if there' && !existsSync(setting.file) ? null : openKekFile(setting.file)
    case 'pkcs11':
      return openPkcs11(setting)
    // Load these only if configured: otherwise the signer has no code that accesses a network.
    case 'vault':
      return (await import('./vault.ts')).openVault(setting)
    case 'aws-kms':
      return (await import('./aws-kms.ts')).openAwsKms(setting)
    case 'gcp-kms':
      return (await import('./gcp-kms.ts')).openGcpKms(setting)
  }
}
