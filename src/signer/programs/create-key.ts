import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError, readConfig } from '../../config.ts'
import { readKekSettings } from '../keys/kek-settings.ts'
import { isInside, makeKekFile } from '../kek/file.ts'
import { StartError } from '../refusal.ts'
import { DATABASE_FILE } from '../store.ts'

/**
 * Creates the master key of a new signer. This is a separate command, because a start must not create one. Otherwise a disk that is
 * not mounted at boot would get a new key, and no account of the right key could be found.
 */
function main(): void {
  const config = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const { SIGNER_DIR: folder } = config
  const kek = readKekSettings(config)?.kek
  if (kek === undefined) throw new ConfigError(['SIGNER_KEK_FILE is missing: the file to create'])
  if (kek.provider !== 'file')
    throw new ConfigError(['SIGNER_KEK is not a file: create its key with the tools of the key service or HSM'])
  const { file } = kek
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the store that the key is for'])
  if (isInside(folder, file))
    throw new StartError('SIGNER_KEK_FILE must not be inside SIGNER_DIR: a backup of one would contain both.')
  if (existsSync(file)) throw new StartError('A file already exists at SIGNER_KEK_FILE. It was not changed.')
  if (existsSync(join(folder, DATABASE_FILE)))
    throw new StartError(
      'SIGNER_DIR already has a store: it opens only with the key it was created with. Restore that key.',
    )
  process.umask(0o077)
  makeKekFile(file)
  process.stdout.write(
    `A master key (KEK) of 32 bytes: ${file}\nStore copies of this key, separate from SIGNER_DIR and its backups. Without the key, every account is lost.\n`,
  )
}

try {
  main()
} catch (error) {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.name})` : ''
  process.stderr.write(
    `${error instanceof Error ? error.message : 'The command failed for an unknown reason.'}${cause}\n`,
  )
  process.exitCode = 1
}
