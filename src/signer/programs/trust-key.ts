import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { readAnchor, readTokenKeys, writeAnchor, type TokenKey } from '../tokens/anchor.ts'
import { assertOwn } from './own-folder.ts'
import { StartError } from '../refusal.ts'

/**
 * Runs `[--accept FINGERPRINT]… [--remove FINGERPRINT]…`: shows the trusted authorization server keys and those offered in
 * SIGNER_JWKS_FILE. It trusts the offered keys with the accepted fingerprints and removes the others that are named. A running
 * signer reads the keys again within a second. Either all changes are made or none.
 */
function main(): void {
  const { values } = readArguments({
    options: {
      accept: { type: 'string', multiple: true, default: [] },
      remove: { type: 'string', multiple: true, default: [] },
    },
  })
  const {
    SIGNER_DIR: folder,
    SIGNER_KEK_FILE: kekFile,
    SIGNER_JWKS_FILE: file,
  } = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: it contains the trusted keys'])
  const trusted = byFingerprint(readAnchor(folder))
  assertOwn(folder, kekFile)
  // A removal must not depend on this file, or an attacker who writes the offer could prevent it.
  const offered = values.accept.length === 0 && values.remove.length > 0 ? new Map() : byFingerprint(readOffer(file))
  const next = new Map(trusted)
  for (const fingerprint of values.remove)
    if (!next.delete(fingerprint)) throw new StartError(`No trusted key has the fingerprint ${fingerprint}.`)
  for (const fingerprint of values.accept) {
    const key = offered.get(fingerprint) ?? trusted.get(fingerprint)
    if (key === undefined) throw new StartError(`No key of SIGNER_JWKS_FILE has the fingerprint ${fingerprint}.`)
    next.set(fingerprint, key)
  }
  if (next.size === 0 && trusted.size > 0)
    throw new StartError('At least one trusted key must remain. To stop all signatures, run signer freeze.')
  if (values.accept.length + values.remove.length > 0) {
    process.umask(0o077)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeAnchor(folder, [...next.values()])
  }
  for (const fingerprint of next.keys()) process.stdout.write(`trusted      ${fingerprint}\n`)
  for (const fingerprint of offered.keys())
    if (!next.has(fingerprint)) process.stdout.write(`not trusted  ${fingerprint}\n`)
  if (next.size + offered.size === 0) process.stdout.write('No key is trusted or offered.\n')
}

const byFingerprint = (keys: TokenKey[]): Map<string, TokenKey> => new Map(keys.map((key) => [jwkThumbprint(key), key]))

function readOffer(file: string | undefined): TokenKey[] {
  if (file === undefined || !existsSync(file)) return []
  let text: string
  try {
    // Reading a pipe would block.
    if (!statSync(file).isFile()) throw new Error('not a file')
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new StartError('SIGNER_JWKS_FILE cannot be read.', error)
  }
  return readTokenKeys(text)
}

try {
  main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : 'The command failed for an unknown reason.'}\n`)
  process.exitCode = 1
}
