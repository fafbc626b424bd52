import { isAbsolute, resolve } from 'node:path'
import { readPkcs11Uri } from './pkcs11-uri.ts'
import type { KekSetting } from './provider.ts'
import { readAwsKmsUri, readGcpKmsUri, readVaultUri, type VaultUri } from './remote-uri.ts'

/** A setting that names a master key, with its name and its files. */
type NamedKek = { name: 'SIGNER_KEK' | 'SIGNER_KEK_NEXT'; text: string; folder: string } & KekFiles

/** The files of a master key in a token or service: its credentials and the trusted CA. */
export type KekFiles = {
  pinFile: string | undefined
  tokenFile: string | undefined
  credentialsFile: string | undefined
  caFile: string | undefined
}

/** Parses a setting that names a master key. @throws Error  a sentence that names the setting and the problem */
export function readKekSetting(named: NamedKek): KekSetting {
  const { name, text, pinFile, tokenFile, credentialsFile, caFile, folder } = named
  const [, provider, rest] = /^([a-z0-9+-]+):(.*)$/s.exec(text) ?? []
  switch (provider) {
    case 'file':
      if (rest === '') throw new Error(`${name} names no file after file:`)
      return { provider, file: isAbsolute(rest!) ? rest! : resolve(rest!) }
    case 'pkcs11': {
      const pinSetting = `${name}_PIN_FILE` as const
      if (pinFile === undefined) throw new Error(`${pinSetting} is missing: the file with the PIN of the token`)
      return { provider, uri: readUri(name, () => readPkcs11Uri(text)), pinFile, pinSetting, folder }
    }
    case 'vault':
    case 'vault+unix': {
      const uri = readUri(name, () => readVaultUri(text))
      if (tokenFile === undefined && !isOnThisMachine(uri))
        throw new Error(`${name}_TOKEN_FILE is missing: the file with a token for Vault`)
      return { provider: 'vault', uri, tokenFile, caFile, name }
    }
    case 'aws-kms': {
      const uri = readUri(name, () => readAwsKmsUri(text))
      if (credentialsFile === undefined) throw new Error(`${name}_CREDENTIALS_FILE is missing: the file with keys of AWS`) // prettier-ignore
      return { provider, uri, credentialsFile, caFile, name }
    }
    case 'gcp-kms': {
      const uri = readUri(name, () => readGcpKmsUri(text))
      if ((credentialsFile === undefined) === (tokenFile === undefined))
        throw new Error(`${name}_CREDENTIALS_FILE or ${name}_TOKEN_FILE is needed, one of them: the key of a service account, or an access token that something renews`) // prettier-ignore
      return { provider, uri, credentialsFile, tokenFile, caFile, name }
    }
    default:
      throw new Error(`${name} names no provider that is known: file:, pkcs11:, vault:, vault+unix:, aws-kms:, gcp-kms:`) // prettier-ignore
  }
}

function readUri<T>(name: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw new Error(`${name} cannot be used: ${(error as Error).message}`, { cause: error })
  }
}

/** An agent on this machine may use a token of its own. */
const isOnThisMachine = ({ origin }: VaultUri): boolean => origin.protocol === 'http:'
