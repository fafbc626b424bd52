import { existsSync } from 'node:fs'
import { openKekFile } from './file.ts'
import { openPkcs11 } from './pkcs11.ts'
import type { Kek, KekSetting } from './provider.ts'

/** @throws StartError  when it cannot be used as it is set */
export async function openKek(setting: KekSetting): Promise<Kek>
/** null where it is a file that `rotate-kek` has not made yet */
export async function openKek(setting: KekSetting, need: 'if there'): Promise<Kek | null>
export async function openKek(setting: KekSetting, need?: 'if there'): Promise<Kek | null> {
  switch (setting.provider) {
    case 'file':
      return need === 'if there' && !existsSync(setting.file) ? null : openKekFile(setting.file)
    case 'pkcs11':
      return openPkcs11(setting)
    // Loaded only where they are used: a signer without them has no code that reaches a network.
    case 'vault':
      return (await import('./vault.ts')).openVault(setting)
    case 'aws-kms':
      return (await import('./aws-kms.ts')).openAwsKms(setting)
    case 'gcp-kms':
      return (await import('./gcp-kms.ts')).openGcpKms(setting)
  }
}
