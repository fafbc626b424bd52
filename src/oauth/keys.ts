import { generateKeyPairSync, hkdfSync } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { JSONWebKeySet, JWK } from 'jose'
import { jwkThumbprint } from '../jwk-thumbprint.ts'
import { whoElseReads } from '../secret-file.ts'
import { areSealKeys, newSealKey, publicSealKeys, type SealKey } from './seal-keys.ts'

/**
 * Private keys of the authorization server. The first of each algorithm signs; the others still verify. `seals`: the
 * keys that seal rows.
 */
export type PrivateKeys = { keys: PrivateKey[]; seals: SealKey[] }
export type PrivateKey = JWK & {
  kid: string
  alg: 'ES256' | 'RS256'
  use: 'sig'
  d: string
  /** when it was prepared, seconds since 1970 (OpenID Federation 1.0, 8.7.2); absent from the first keys */
  iat?: number
}

/**
 * Reads the signing keys and writes their public half for the signer.
 * @param create  whether to make a missing file, readable by this OS user only: in development
 * @throws Error  if the file is missing and `create` is false, cannot be read, is readable by others, or lacks an ES256
 *         or RS256 key; if the public half cannot be written, or would replace anything else
 */
export async function loadKeys({
  keysFile,
  jwksFile,
  create,
}: {
  keysFile: string
  jwksFile: string
  create: boolean
}): Promise<PrivateKeys> {
  let text = await readIfThere(keysFile, 'AUTH_KEYS_FILE')
  if (text === null) {
    if (!create) throw new Error(NO_KEYS)
    text = JSON.stringify(newKeys())
    await mkdir(dirname(keysFile), { recursive: true })
    // Created exclusively and with its mode in one step: others can never read the keys, and a file is never
    // overwritten.
    const file = await open(keysFile, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    await file.writeFile(text)
    await file.sync()
    await file.close()
  }
  const keys = await readGuarded(keysFile, text)
  await writePublic(jwksFile, keys)
  return keys
}

/** Reads the signing keys and writes nothing. @throws Error as `loadKeys` without `create` */
export async function readPrivateKeys(keysFile: string): Promise<PrivateKeys> {
  const text = await readIfThere(keysFile, 'AUTH_KEYS_FILE')
  if (text === null) throw new Error(NO_KEYS)
  return readGuarded(keysFile, text)
}

const NO_KEYS = 'the keys of the authorization server are missing: AUTH_KEYS_FILE names no file'

async function readGuarded(keysFile: string, text: string): Promise<PrivateKeys> {
  const others = whoElseReads(await stat(keysFile))
  if (others !== null)
    throw new Error(
      `AUTH_KEYS_FILE is readable by ${others}, who could sign in as anyone: chmod 600 it, for the server’s user`,
    )
  return readKeys(text)
}

/**
 * Replaces the keys by those that `change` returns. Readers of the file see the old or the new keys, never a part.
 * @throws Error  if there are no keys; the errors of `change`
 */
export async function changeKeys(
  { keysFile, jwksFile }: { keysFile: string; jwksFile: string },
  change: (keys: PrivateKeys) => PrivateKeys,
): Promise<void> {
  const keys = change(await loadKeys({ keysFile, jwksFile, create: false }))
  // Publish the public keys before they can sign.
  await writePublic(jwksFile, keys)
  await writeWhole(keysFile, JSON.stringify(keys), 0o600)
}

/**
 * Returns the public half, which `/oauth/jwks` shows and the signer verifies with; member by member, so that no private
 * member leaks.
 */
export function publicKeys({ keys }: Pick<PrivateKeys, 'keys'>): JSONWebKeySet {
  return {
    keys: keys.map(({ kty, kid, alg, use, crv, x, y, n, e }) =>
      kty === 'EC' ? { kty, kid, alg, use, crv: crv!, x: x!, y: y! } : { kty: kty!, kid, alg, use, n: n!, e: e! },
    ),
  }
}

/**
 * Reads the public half, for a program that has no private keys.
 * @throws Error  if it cannot be read, or is not a set of public keys
 */
export async function readPublicKeys(jwksFile: string): Promise<JSONWebKeySet & { seals: SealKey[] }> {
  const text = await readIfThere(jwksFile, 'AUTH_JWKS_FILE')
  const keys =
    text === null || text.trim() === '' || !isPublicSet(text)
      ? null
      : (JSON.parse(text) as JSONWebKeySet & { seals?: SealKey[] })
  if (keys?.seals === undefined)
    throw new Error('AUTH_JWKS_FILE must hold the public keys of the authorization server, which its program writes')
  return { ...keys, seals: keys.seals }
}

/**
 * Derives the keys for signing cookies, newest first, from the signing keys, so that only one file needs protection. A
 * new signing key put in front signs nobody out, as long as the old one remains behind it.
 */
export const cookieKeysOf = ({ keys }: Pick<PrivateKeys, 'keys'>): string[] =>
  keys.filter(({ alg }) => alg === 'ES256').map(({ d }) => derive(d, 'cookies').toString('base64url'))

/** Derives a 32-byte key for one purpose from a secret, by HKDF-SHA256 (RFC 5869). */
export const derive = (secret: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, '', `chatelaine ${purpose}`, 32))

/** Makes the first keys: one of each signing algorithm, and one that seals. */
export const newKeys = (): PrivateKeys => ({
  keys: [newKey('ES256'), newKey('RS256')],
  seals: [newSealKey()],
})

/** Makes a signing key, with its RFC 7638 thumbprint as key id. */
export function newKey(alg: PrivateKey['alg']): PrivateKey {
  const { privateKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : generateKeyPairSync('rsa', { modulusLength: 2_048 })
  const jwk = privateKey.export({ format: 'jwk' }) as JWK & { d: string }
  return { ...jwk, kid: jwkThumbprint(jwk), alg, use: 'sig' }
}

function readKeys(text: string): PrivateKeys {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    // The message of JSON.parse may repeat a part of a key, so the cause is dropped.
    throw new Error('AUTH_KEYS_FILE does not hold JSON')
  }
  const keys = ((parsed as { keys?: unknown } | null)?.keys ?? []) as PrivateKey[]
  const isUsable = (key: PrivateKey): boolean =>
    typeof key?.d === 'string' &&
    typeof key.kid === 'string' &&
    ((key.alg === 'ES256' && key.kty === 'EC' && key.crv === 'P-256') || (key.alg === 'RS256' && key.kty === 'RSA'))
  if (!Array.isArray(keys) || !keys.every(isUsable))
    throw new Error('AUTH_KEYS_FILE must be a set of private JWKs, each ES256 (P-256) or RS256, with kid and alg')
  for (const alg of ['ES256', 'RS256']) {
    if (!keys.some((key) => key.alg === alg)) throw new Error(`AUTH_KEYS_FILE holds no ${alg} key`)
  }
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length)
    throw new Error('AUTH_KEYS_FILE holds two keys with one kid')
  const { seals } = parsed as { seals?: unknown }
  if (!areSealKeys(seals, true))
    throw new Error('AUTH_KEYS_FILE must have private Ed25519 JWKs, each with a kid of its own, as its `seals`')
  return { keys: keys.map((key) => ({ ...key, use: 'sig' })), seals }
}

/** Reads a file; null if there is none. @throws Error  naming the setting */
async function readIfThere(file: string, setting: 'AUTH_KEYS_FILE' | 'AUTH_JWKS_FILE'): Promise<string | null> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return null
    throw new Error(`${setting} cannot be read (${code})`, { cause: error })
  }
}

/**
 * Writes the public half. It overwrites an older public half and nothing else: a wrong path must not destroy another
 * file, least of all the private keys.
 */
async function writePublic(file: string, keys: PrivateKeys): Promise<void> {
  const there = await readIfThere(file, 'AUTH_JWKS_FILE')
  const text = JSON.stringify({ ...publicKeys(keys), seals: publicSealKeys(keys.seals) })
  if (there === text) return
  if (there !== null && !isPublicSet(there))
    throw new Error('AUTH_JWKS_FILE names a file that holds something other than public keys: it is not changed')
  try {
    await writeWhole(file, text)
  } catch (error) {
    throw new Error(`AUTH_JWKS_FILE cannot be written (${(error as NodeJS.ErrnoException).code})`, { cause: error })
  }
}

/** An empty file counts as public: an operator may have made it, to set its owner and mode. */
function isPublicSet(text: string): boolean {
  if (text.trim() === '') return true
  try {
    const { keys, seals } = JSON.parse(text) as { keys?: unknown; seals?: unknown }
    if (seals !== undefined && !areSealKeys(seals, false)) return false
    return Array.isArray(keys) && keys.every((key: JWK | null) => typeof key?.kty === 'string' && key.d === undefined)
  } catch {
    return false
  }
}

/** Replaces a file in one step: the signer, which may read it at any moment, finds the old or the new one, whole. */
async function writeWhole(file: string, text: string, mode = 0o644): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const part = `${file}.${process.pid}`
  await writeFile(part, text, { mode, flush: true })
  await rename(part, file)
}
