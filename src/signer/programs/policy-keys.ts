import { mkdirSync, readFileSync } from 'node:fs'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { assertOwn } from './own-folder.ts'
import { PolicyInvalid } from '../policy/json.ts'
import { readPolicyKey, type PolicyKey } from '../policy/jws.ts'
import { readPolicyTrust, writePolicyTrust } from '../rules/policy-trust.ts'
import { StartError } from '../refusal.ts'

/**
 * Runs `[--offer FILE]… [--accept FINGERPRINT]… [--remove FINGERPRINT]… [--threshold K]`: shows the trusted policy keys and how
 * many must sign a policy. It trusts the offered keys with the accepted fingerprints and removes the others that are named. A
 * running signer reads the keys again within a second. Either all changes are made or none.
 */
function main(): void {
  const { values } = readArguments({
    options: {
      offer: { type: 'string', multiple: true, default: [] },
      accept: { type: 'string', multiple: true, default: [] },
      remove: { type: 'string', multiple: true, default: [] },
      threshold: { type: 'string' },
    },
  })
  const { SIGNER_DIR: folder, SIGNER_KEK_FILE: kekFile } = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: it contains the policy keys'])
  const trust = readPolicyTrust(folder)
  const offered = byFingerprint(values.offer.map(readOffered))
  const next = byFingerprint(trust.keys)
  for (const fingerprint of values.remove)
    if (!next.delete(fingerprint)) throw new StartError(`No policy key has the fingerprint ${fingerprint}.`)
  for (const fingerprint of values.accept) {
    const key = offered.get(fingerprint)
    if (key === undefined)
      throw new StartError(`No offered key has the fingerprint ${fingerprint}. Give its file with --offer.`)
    next.set(fingerprint, key)
  }
  const isChange = values.accept.length + values.remove.length > 0 || values.threshold !== undefined
  const threshold = values.threshold === undefined ? trust.threshold : Number(values.threshold)
  if (isChange) {
    if (next.size === 0)
      throw new StartError('At least one policy key must remain. Without a key, no policy can be replaced.')
    if (trust.keys.length === 0 && values.threshold === undefined)
      throw new StartError('--threshold is missing: the number of keys that must sign a policy.')
    if (!Number.isSafeInteger(threshold) || threshold < 1 || threshold > next.size)
      throw new StartError(`--threshold must be a whole number from 1 to ${next.size}, the number of keys.`)
    assertOwn(folder, kekFile)
    process.umask(0o077)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writePolicyTrust(folder, { threshold, keys: [...next.values()] })
  }
  for (const fingerprint of next.keys()) process.stdout.write(`trusted      ${fingerprint}\n`)
  for (const fingerprint of offered.keys())
    if (!next.has(fingerprint)) process.stdout.write(`not trusted  ${fingerprint}\n`)
  process.stdout.write(
    next.size === 0 ? 'No policy key is trusted.\n' : `A policy needs ${threshold} of ${next.size} signatures.\n`,
  )
}

const byFingerprint = (keys: PolicyKey[]): Map<string, PolicyKey> =>
  new Map(keys.map((key) => [jwkThumbprint(key), key]))

function readOffered(file: string): PolicyKey {
  try {
    return readPolicyKey(JSON.parse(readFileSync(file, 'utf8')))
  } catch (error) {
    // The message of JSON.parse repeats part of its input, which may be a private key.
    throw new StartError(
      `${file} cannot be read: ${error instanceof PolicyInvalid ? error.message : 'not a key in JSON'}.`,
    )
  }
}

try {
  main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : 'The command failed for an unknown reason.'}\n`)
  process.exitCode = 1
}
