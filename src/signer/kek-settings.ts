import { ConfigError, type Config } from '../config.ts'
import type { KekSettings } from './open-kek.ts'

/**
 * Where the master keys are, for the signer and its tools.
 * @returns null where none is named
 * @throws ConfigError
 */
export function readKekSettings(config: Config): KekSettings | null {
  const { SIGNER_KEK_FILE: file, SIGNER_KEK_NEXT_FILE: next } = config
  if (file === undefined) return null
  return { kek: { provider: 'file', file }, kekNext: next === undefined ? undefined : { provider: 'file', file: next } }
}

/** @throws ConfigError  where none is named */
export function requireKekSettings(config: Config): KekSettings {
  const settings = readKekSettings(config)
  if (settings === null)
    throw new ConfigError(['SIGNER_KEK_FILE is missing: the master key (KEK) that wrapped the data keys of the store'])
  return settings
}
