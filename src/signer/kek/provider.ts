/**
 * signer/kek: the master key (KEK) and its locations. It only wraps data keys.
 * Owns: the providers, one file each; the settings that name one; the shares of a key in a file.
 * Does not own: the data keys (`signer/keys/deks.ts`), the change to another master key (`signer/keys/rotation.ts`).
 */

import { StartError } from '../refusal.ts'
import type { Pkcs11Uri } from './pkcs11-uri.ts'
import type { AwsKmsUri, GcpKmsUri, VaultUri } from './remote-uri.ts'

/**
 * The key that wraps data keys; it never leaves its provider. `aad` is authenticated with the wrapped bytes. Both functions throw
 * KekUnavailable if the provider could not be reached or did not answer. `unwrap` throws another error if the bytes were not
 * wrapped by this key or not with this `aad`.
 */
export type Kek = {
  provider: KekProvider
  /** true: `wrap` may use a newer version of the key than before; `unwrap` opens older versions as well */
  isVersioned?: true
  wrap: (dek: Buffer, aad: Buffer) => Promise<Buffer>
  unwrap: (wrapped: Buffer, aad: Buffer) => Promise<Buffer>
}

/** The master key that the settings name. Secrets are in files that only the signer's OS user can read, never in a setting. */
export type KekSetting =
  | { provider: 'file'; file: string }
  | {
      provider: 'pkcs11'
      uri: Pkcs11Uri
      pinFile: string
      /** the setting that names the PIN file, for error messages */
      pinSetting: string
      /** SIGNER_DIR, where a rejected PIN is recorded */
      folder: string
    }
  // `name` is the name of the setting, for error messages.
  | (Remote & { provider: 'vault'; uri: VaultUri; tokenFile: string | undefined })
  | (Remote & { provider: 'aws-kms'; uri: AwsKmsUri; credentialsFile: string })
  | (Remote & {
      provider: 'gcp-kms'
      uri: GcpKmsUri
      /** exactly one of the two is set */
      credentialsFile: string | undefined
      tokenFile: string | undefined
    })

type Remote = { name: string; caFile: string | undefined }

type KekProvider = KekSetting['provider']

/** The master key cannot be used now. The sentence is for the operator and contains no secret. */
export class KekUnavailable extends StartError {}

/** The bytes were not wrapped by this key, or not with this additional data. */
export class NotItsOwn extends Error {}
