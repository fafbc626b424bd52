/**
 * signer/kek: the master key (KEK), wherever it lives: it wraps data keys and does nothing else.
 * Owns: the providers, one file each; how a setting names one; the shares of a key in a file.
 * Does not own: the data keys (`signer/keys/deks.ts`), when another master key takes over (`signer/keys/rotation.ts`).
 */

import { StartError } from '../refusal.ts'
import type { Pkcs11Uri } from './pkcs11-uri.ts'
import type { AwsKmsUri, GcpKmsUri, VaultUri } from './remote-uri.ts'

/**
 * The key that wraps data keys. What it wraps with stays inside. `aad` is authenticated with the wrapped bytes.
 * Both throw KekUnavailable when nobody can say: the key was not asked, or did not answer. `unwrap` throws anything else
 * when the bytes were not wrapped by this key, or not with this `aad`.
 */
export type Kek = {
  provider: KekProvider
  /** what it wraps today may be by a newer version of the key than what it wrapped before, which it opens as well */
  isVersioned?: true
  wrap: (dek: Buffer, aad: Buffer) => Promise<Buffer>
  unwrap: (wrapped: Buffer, aad: Buffer) => Promise<Buffer>
}

/** Which master key the settings name. Secrets are in files of the signer's user alone, never in a setting. */
export type KekSetting =
  | { provider: 'file'; file: string }
  | {
      provider: 'pkcs11'
      uri: Pkcs11Uri
      pinFile: string
      /** the setting that names it, for sentences */
      pinSetting: string
      /** SIGNER_DIR: where it says that a PIN was refused */
      folder: string
    }
  // `name` is the setting's, for sentences.
  | (Remote & { provider: 'vault'; uri: VaultUri; tokenFile: string | undefined })
  | (Remote & { provider: 'aws-kms'; uri: AwsKmsUri; credentialsFile: string })
  | (Remote & {
      provider: 'gcp-kms'
      uri: GcpKmsUri
      /** one of the two */
      credentialsFile: string | undefined
      tokenFile: string | undefined
    })

type Remote = { name: string; caFile: string | undefined }

type KekProvider = KekSetting['provider']

/** The master key cannot be used now. The sentence is for the operator and holds no secret. */
export class KekUnavailable extends StartError {}

/** Bytes that this key has not wrapped, or not with this additional data. */
export class NotItsOwn extends Error {}
