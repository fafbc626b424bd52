import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder } from '../kek/file.ts'
import { readPolicyKey, type PolicyTrust } from '../policy/jws.ts'
import { StartError } from '../refusal.ts'

const TRUST_FILE = 'policy-keys.json'

/** Returns the path of the trusted policy keys and their threshold: a file in the signer's own folder, like `anchorOf`. */
export const policyTrustOf = (folder: string): string => join(folder, TRUST_FILE)

/** Reads the trusted policy keys; none if there is no file. @throws StartError  if the file exists and cannot be read */
export function readPolicyTrust(folder: string): PolicyTrust {
  let text: string
  try {
    text = readFileSync(policyTrustOf(folder), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { threshold: 1, keys: [] }
    throw new StartError(`The policy keys cannot be read: ${TRUST_FILE} in SIGNER_DIR.`, error)
  }
  try {
    const { threshold, keys } = JSON.parse(text) as { threshold: unknown; keys: unknown[] }
    if (!Number.isSafeInteger(threshold) || (threshold as number) < 1 || (threshold as number) > keys.length)
      throw new Error('the threshold does not match the number of keys')
    return { threshold: threshold as number, keys: keys.map(readPolicyKey) }
  } catch {
    throw new StartError(`The policy keys are unreadable: ${TRUST_FILE} in SIGNER_DIR.`)
  }
}

/** Replaces the file atomically and syncs it to disk before it returns. */
export function writePolicyTrust(folder: string, trust: PolicyTrust): void {
  const draft = `${policyTrustOf(folder)}.new`
  rmSync(draft, { force: true })
  const fd = openSync(draft, 'wx', 0o600)
  try {
    writeSync(fd, JSON.stringify(trust, null, 2))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(draft, policyTrustOf(folder))
  syncFolder(folder)
}
