import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { syncFolder } from '../kek/file.ts'
import { StartError } from '../refusal.ts'

/** A public key that tokens may be signed with; no other members are stored. */
export type TokenKey = { kty: 'EC'; crv: 'P-256'; x: string; y: string; kid?: string }

const ANCHOR_FILE = 'token-keys.json'

/**
 * Returns the path of the trusted token keys: a file in the signer's own folder. Only the signer's OS user can write it, and only
 * `chatelaine signer trust-key` does. The keys that the server publishes are not trusted until then.
 */
export const anchorOf = (folder: string): string => join(folder, ANCHOR_FILE)

/** Requires at least one trusted key. @throws StartError  if there is none */
export function assertAnchored(folder: string): void {
  if (readAnchor(folder).length === 0)
    throw new StartError(
      'The signer trusts no key of an authorization server yet. As the signer’s user, list the keys of SIGNER_JWKS_FILE with chatelaine signer trust-key, and accept one by its fingerprint.',
    )
}

/** Reads the trusted keys; none if there is no file. @throws StartError  if the file exists and cannot be read */
export function readAnchor(folder: string): TokenKey[] {
  let text: string
  try {
    text = readFileSync(anchorOf(folder), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new StartError(`The trusted keys cannot be read: ${ANCHOR_FILE} in SIGNER_DIR.`, error)
  }
  return readTokenKeys(text)
}

/** Replaces the trusted keys atomically and syncs them to disk before it returns. */
export function writeAnchor(folder: string, keys: TokenKey[]): void {
  const draft = `${anchorOf(folder)}.new`
  rmSync(draft, { force: true })
  const fd = openSync(draft, 'wx', 0o600)
  try {
    // Store the key id that the authorization server derives for its own keys. An id chosen by the publisher could belong to
    // another key.
    const named = keys.map((key) => ({ ...key, kid: jwkThumbprint(key) }))
    writeSync(fd, JSON.stringify({ keys: named }, null, 2))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(draft, anchorOf(folder))
  syncFolder(dirname(draft))
}

/**
 * Parses a JSON web key set. It takes only public P-256 keys for signatures, member by member, so a private part in the file is not
 * copied.
 * @throws Error  that does not repeat the text
 */
export function readTokenKeys(text: string): TokenKey[] {
  return readJson(text)
    .keys.filter(
      ({ kty, crv, use = 'sig', x, y }) => kty === 'EC' && crv === 'P-256' && use === 'sig' && isText(x) && isText(y),
    )
    .map(({ x, y, kid }) => ({ kty: 'EC', crv: 'P-256', x: x!, y: y!, ...(isText(kid) ? { kid } : {}) }))
}

const isText = (value: unknown): value is string => typeof value === 'string'

function readJson(text: string): { keys: Record<string, string>[] } {
  try {
    const parsed = JSON.parse(text) as { keys?: unknown } | null
    if (Array.isArray(parsed?.keys))
      return { keys: parsed.keys.filter((key) => typeof key === 'object' && key !== null) }
  } catch {
    // The message of JSON.parse repeats part of its input, which may contain a private key.
  }
  throw new Error('the file of token keys is not a JSON web key set')
}
