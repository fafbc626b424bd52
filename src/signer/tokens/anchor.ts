import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { jwkThumbprint } from '../../jwk-thumbprint.ts'
import { syncFolder } from '../kek/file.ts'
import { StartError } from '../refusal.ts'

/** A public key that tokens may be signed with; nothing else of it is kept. */
export type TokenKey = { kty: 'EC'; crv: 'P-256'; x: string; y: string; kid?: string }

const ANCHOR_FILE = 'token-keys.json'

/**
 * The keys that the signer believes: a file in its own folder, which only its own user can write and only
 * `chatelaine signer trust-key` does. What the server publishes is an offer.
 */
export const anchorOf = (folder: string): string => join(folder, ANCHOR_FILE)

/** @throws StartError  when nothing was trusted yet */
export function assertAnchored(folder: string): void {
  if (readAnchor(folder).length === 0)
    throw new StartError(
      'The signer trusts no key of an authorization server yet: chatelaine signer trust-key, as the signer’s user, shows those of SIGNER_JWKS_FILE and takes one by its fingerprint.',
    )
}

/** @throws StartError  when the file is there and cannot be read */
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

/** In one step, on the disk before it returns. */
export function writeAnchor(folder: string, keys: TokenKey[]): void {
  const draft = `${anchorOf(folder)}.new`
  rmSync(draft, { force: true })
  const fd = openSync(draft, 'wx', 0o600)
  try {
    // By the name that the authorization server gives its own keys: one that an offer chose could stand for another key.
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
 * Only public EC keys for signatures are taken over, member by member: a private part that strayed into the file is
 * left there.
 * @throws Error  that repeats nothing of the text
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
    // JSON.parse repeats part of its input in its message, and a private key may have strayed into the file.
  }
  throw new Error('the file of token keys is no JSON web key set')
}
