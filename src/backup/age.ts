import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto'
import { decodeBech32, encodeBech32 } from './bech32.ts'
import { readBytes, type ByteReader } from './bytes.ts'

/**
 * Files encrypted to recipients, in the format of age v1 (C2SP age) with X25519 recipients; compatible with the program `age`. It
 * is implemented here because the signer may run code of at most three packages, and node:crypto has all primitives. It does not
 * authenticate the writer, because recipients are public.
 */

/** The file cannot be decrypted; the text is shown to the user. */
export class AgeError extends Error {}

const VERSION = 'age-encryption.org/v1'
const CHUNK_BYTES = 65_536
const TAG_BYTES = 16
const FILE_KEY_BYTES = 16
const KEY_BYTES = 32
/** Width of a stanza's body lines; the first shorter line ends the body. */
const COLUMNS = 64
/** maximum characters of a header line, and maximum lines: some hundred recipients */
const MAX_LINE = 1_024
const MAX_LINES = 2_048

const RECIPIENT = 'age'
const IDENTITY = 'age-secret-key-'
/** The DER prefixes of X25519 keys (RFC 8410) before their 32 bytes. */
const SPKI = Buffer.from('302a300506032b656e032100', 'hex')
const PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex')

/** Creates an identity, `AGE-SECRET-KEY-1…`, and its recipient, `age1…`. */
export function makeIdentity(): { identity: string; recipient: string } {
  const { privateKey, publicKey } = generateKeyPairSync('x25519')
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' })
  const identity = encodeBech32(IDENTITY, secret.subarray(PKCS8.length)).toUpperCase()
  secret.fill(0)
  return { identity, recipient: encodeBech32(RECIPIENT, rawOf(publicKey)) }
}

/** Parses a recipient. @param text  `age1…` @throws AgeError */
export function readRecipient(text: string): KeyObject {
  const bytes = decodeBech32(RECIPIENT, text)
  if (bytes?.length !== KEY_BYTES) throw new AgeError('A recipient must be age1… followed by 58 characters, as age-keygen prints it.') // prettier-ignore
  return publicOf(bytes)
}

/**
 * Parses identities. @param text  the content of an age-keygen file: one identity per line, and comments
 * @throws AgeError  that does not repeat the text
 */
export function readIdentities(text: string): KeyObject[] {
  const lines = text.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('#'))
  const keys = lines.map((line) => decodeBech32(IDENTITY, line))
  if (keys.length === 0 || keys.some((key) => key?.length !== KEY_BYTES))
    throw new AgeError('The identity file must contain a line AGE-SECRET-KEY-1…, as age-keygen writes it.')
  return keys.map((key) => {
    const der = Buffer.concat([PKCS8, key!])
    try {
      return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    } finally {
      der.fill(0)
      key!.fill(0)
    }
  })
}

/** Encrypts to recipients, each of whom alone can decrypt it. */
export async function* seal(recipients: KeyObject[], source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const fileKey = randomBytes(FILE_KEY_BYTES)
  const header = `${VERSION}\n${recipients.map((to) => stanzaFor(to, fileKey)).join('')}---`
  yield Buffer.from(`${header} ${base64(macOf(fileKey, header))}\n`, 'latin1')
  const nonce = randomBytes(16)
  yield nonce
  const key = derive(fileKey, nonce, 'payload')
  fileKey.fill(0)
  const reader = readBytes(source)
  for (let counter = 0; ; counter++) {
    const chunk = await reader.read(CHUNK_BYTES)
    const isLast = await reader.isEnd()
    const cipher = createCipheriv('chacha20-poly1305', key, chunkNonce(counter, isLast), { authTagLength: TAG_BYTES })
    yield Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()])
    if (isLast) return
  }
}

/**
 * Decrypts piece by piece. Truncation is detected only at the end, so do not use any output before this has ended.
 * @throws AgeError  if no identity decrypts it, or a byte was altered or is missing
 */
export async function* unseal(identities: KeyObject[], source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const reader = readBytes(source)
  const key = await openHeader(identities, reader)
  for (let counter = 0; ; counter++) {
    const chunk = await reader.read(CHUNK_BYTES + TAG_BYTES)
    const isLast = await reader.isEnd()
    const opened = decrypt(key, chunkNonce(counter, isLast), chunk)
    // Only an empty file ends with an empty piece.
    if (opened === null || (opened.length === 0 && counter > 0)) throw altered()
    yield opened
    if (isLast) return
  }
}

const altered = (): AgeError => new AgeError('The file was altered, or a part of it is missing.')

function stanzaFor(recipient: KeyObject, fileKey: Buffer): string {
  const { privateKey, publicKey } = generateKeyPairSync('x25519')
  const share = rawOf(publicKey)
  const key = wrapKey({ privateKey, publicKey: recipient }, { share, recipient: rawOf(recipient) })
  const cipher = createCipheriv('chacha20-poly1305', key, ZERO_NONCE, { authTagLength: TAG_BYTES })
  const body = Buffer.concat([cipher.update(fileKey), cipher.final(), cipher.getAuthTag()])
  return `-> X25519 ${base64(share)}\n${base64(body)}\n`
}

/** Reads the header. @returns the key of the payload @throws AgeError */
async function openHeader(identities: KeyObject[], reader: ByteReader): Promise<Buffer> {
  if ((await reader.line(MAX_LINE)) !== VERSION)
    throw new AgeError('The file is not encrypted in the format of age v1.')
  let header = `${VERSION}\n`
  const stanzas: { args: string[]; body: string }[] = []
  for (let lines = 0; lines < MAX_LINES; lines++) {
    const line = await reader.line(MAX_LINE)
    const [, mac] = /^--- ([A-Za-z0-9+/]{43})$/.exec(line ?? '') ?? []
    if (mac !== undefined) {
      const fileKey = findFileKey(identities, stanzas)
      if (fileKey === null)
        throw new AgeError('The file was encrypted to other recipients: no given identity can open it.')
      if (!timingSafeEqual(macOf(fileKey, `${header}---`), unbase64(mac, 32) ?? Buffer.alloc(32))) throw altered()
      const nonce = await reader.read(16)
      if (nonce.length < 16) throw altered()
      return derive(fileKey, nonce, 'payload')
    }
    if (line === null || !line.startsWith('-> ')) throw altered()
    header += `${line}\n`
    let body = ''
    for (let part: string | null = null; part === null || part.length === COLUMNS; lines++) {
      part = await reader.line(COLUMNS)
      if (part === null || lines > MAX_LINES) throw altered()
      body += part
      header += `${part}\n`
    }
    stanzas.push({ args: line.slice(3).split(' '), body })
  }
  throw altered()
}

function findFileKey(identities: KeyObject[], stanzas: { args: string[]; body: string }[]): Buffer | null {
  for (const { args, body } of stanzas) {
    // Other recipient types are not supported.
    if (args[0] !== 'X25519') continue
    const share = args.length === 2 ? unbase64(args[1]!, KEY_BYTES) : null
    const wrapped = unbase64(body, FILE_KEY_BYTES + TAG_BYTES)
    if (share === null || wrapped === null) throw altered()
    for (const privateKey of identities) {
      const recipient = rawOf(createPublicKey(privateKey))
      const fileKey = tryUnwrap({ privateKey, share, recipient, wrapped })
      if (fileKey !== null) return fileKey
    }
  }
  return null
}

function tryUnwrap(given: { privateKey: KeyObject; share: Buffer; recipient: Buffer; wrapped: Buffer }): Buffer | null {
  const { privateKey, share, recipient, wrapped } = given
  try {
    return decrypt(wrapKey({ privateKey, publicKey: publicOf(share) }, { share, recipient }), ZERO_NONCE, wrapped)
  } catch {
    // OpenSSL rejects a share of low order, whose shared secret would be zero.
    throw altered()
  }
}

function wrapKey(
  keys: { privateKey: KeyObject; publicKey: KeyObject },
  salt: { share: Buffer; recipient: Buffer },
): Buffer {
  // prettier-ignore
  const secret = diffieHellman(keys)
  try {
    return derive(secret, Buffer.concat([salt.share, salt.recipient]), `${VERSION}/X25519`)
  } finally {
    secret.fill(0)
  }
}

const ZERO_NONCE = Buffer.alloc(12)

const macOf = (fileKey: Buffer, header: string): Buffer =>
  createHmac('sha256', derive(fileKey, Buffer.alloc(0), 'header'))
    .update(header, 'latin1')
    .digest()

const derive = (key: Buffer, salt: Buffer, info: string): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, info, KEY_BYTES))

/** Computes a nonce of STREAM: 11 bytes of a counter, and one that marks the last chunk. */
function chunkNonce(counter: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeUIntBE(counter, 5, 6)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

function decrypt(key: Buffer, nonce: Buffer, sealed: Buffer): Buffer | null {
  if (sealed.length < TAG_BYTES) return null
  const decipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
  const opened = decipher.update(sealed.subarray(0, -TAG_BYTES))
  try {
    decipher.final()
    return opened
  } catch {
    opened.fill(0)
    return null
  }
}

const rawOf = (key: KeyObject): Buffer => key.export({ format: 'der', type: 'spki' }).subarray(SPKI.length)

const publicOf = (bytes: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI, bytes]), format: 'der', type: 'spki' })

const base64 = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '')

/** Decodes base64; null if it has another length or is not canonical. */
function unbase64(text: string, length: number): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === length && base64(bytes) === text ? bytes : null
}
