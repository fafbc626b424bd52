import { isAbsolute, resolve } from 'node:path'
import { readPkcs11Uri } from './pkcs11-uri.ts'
import type { KekSetting } from './provider.ts'

/** A setting that names a master key, and what goes with it: `name` is the setting's, files as they are set. */
type NamedKek = { name: 'SIGNER_KEK' | 'SIGNER_KEK_NEXT'; text: string; pinFile: string | undefined; folder: string }

/** @throws Error  a sentence that names the setting, and what of it is wrong */
export function readKekSetting({ name, text, pinFile, folder }: NamedKek): KekSetting {
  const [, provider, rest] = /^([a-z0-9-]+):(.*)$/s.exec(text) ?? []
  switch (provider) {
    case 'file':
      if (rest === '') throw new Error(`${name} names no file after file:`)
      return { provider, file: isAbsolute(rest!) ? rest! : resolve(rest!) }
    case 'pkcs11': {
      const pinSetting = `${name}_PIN_FILE` as const
      if (pinFile === undefined) throw new Error(`${pinSetting} is missing: the file with the PIN of the token`)
      try {
        return { provider, uri: readPkcs11Uri(text), pinFile, pinSetting, folder }
      } catch (error) {
        throw new Error(`${name} cannot be used: ${(error as Error).message}`, { cause: error })
      }
    }
    default:
      throw new Error(`${name} names no provider that is known: file:, pkcs11:`)
  }
}
