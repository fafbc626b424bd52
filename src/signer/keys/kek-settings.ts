import { ConfigError, type Config } from '../../config.ts'
import type { KekSetting } from '../kek/provider.ts'
import { readKekSetting, type KekFiles } from '../kek/settings.ts'
import type { KekSettings } from './open-kek.ts'

/**
 * Reads the locations of the master keys, for the signer and its tools.
 * @returns null if none is configured
 * @throws ConfigError  naming every problem
 */
export function readKekSettings(config: Config): KekSettings | null {
  const problems: string[] = []
  const folder = config.SIGNER_DIR ?? ''
  const kek = read('SIGNER_KEK', {
    text: config.SIGNER_KEK,
    file: config.SIGNER_KEK_FILE,
    pinFile: config.SIGNER_KEK_PIN_FILE,
    tokenFile: config.SIGNER_KEK_TOKEN_FILE,
    credentialsFile: config.SIGNER_KEK_CREDENTIALS_FILE,
    caFile: config.SIGNER_KEK_CA_FILE,
  })
  const kekNext = read('SIGNER_KEK_NEXT', {
    text: config.SIGNER_KEK_NEXT,
    file: config.SIGNER_KEK_NEXT_FILE,
    pinFile: config.SIGNER_KEK_NEXT_PIN_FILE,
    tokenFile: config.SIGNER_KEK_NEXT_TOKEN_FILE,
    credentialsFile: config.SIGNER_KEK_NEXT_CREDENTIALS_FILE,
    caFile: config.SIGNER_KEK_NEXT_CA_FILE,
  })
  if (problems.length > 0) throw new ConfigError(problems)
  return kek === undefined ? null : { kek, kekNext }

  function read(
    name: 'SIGNER_KEK' | 'SIGNER_KEK_NEXT',
    { text, file, ...files }: { text: string | undefined; file: string | undefined } & KekFiles,
  ): KekSetting | undefined {
    if (text !== undefined && file !== undefined) {
      problems.push(`${name} and ${name}_FILE are both set: remove one setting`)
      return undefined
    }
    if (file !== undefined) return { provider: 'file', file }
    if (text === undefined) return undefined
    try {
      return readKekSetting({ name, text, folder, ...files })
    } catch (error) {
      problems.push((error as Error).message)
      return undefined
    }
  }
}

/** Reads the same and requires a master key. @throws ConfigError  if none is configured */
export function requireKekSettings(config: Config): KekSettings {
  const settings = readKekSettings(config)
  if (settings === null)
    throw new ConfigError([
      'SIGNER_KEK_FILE or SIGNER_KEK is missing: the master key (KEK) that wraps the data keys of the store',
    ])
  return settings
}
