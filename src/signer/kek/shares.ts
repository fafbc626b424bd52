import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

/**
 * A share of a master key that is split by Shamir's scheme: any `need` shares yield the key; fewer reveal nothing. Each byte is the
 * value at 0 of a random polynomial of degree `need - 1` over GF(256). A share has the value at the share's number. A checksum is
 * split with the key, so that a wrong key is detected; until then it reveals nothing.
 * Source: A. Shamir, How to share a secret, 1979; the field is that of FIPS 197 §4.
 */
export type KeyShare = {
  /** random id of one split; shares of different sets are unrelated */
  set: Buffer
  of: number
  need: number
  /** 1 to `of` */
  number: number
  values: Buffer
}

const MAX_SHARES = 255
const KEY_BYTES = 32
const CHECK_BYTES = 8
const SET_BYTES = 4
const SUM_BYTES = 4
const VERSION = 1

/** Invalid shares; the sentence names them by number. */
export class ShareError extends Error {}

/** Splits a master key. @throws ShareError  if `need` is below 2 or above `of`, or `of` above 255 */
export function splitKey(key: Buffer, { of, need }: { of: number; need: number }, random = randomBytes): KeyShare[] {
  if (!Number.isInteger(of) || !Number.isInteger(need) || need < 2 || need > of || of > MAX_SHARES)
    throw new ShareError('At least 2 shares are needed, at most as many as there are, and there are at most 255.')
  const set = random(SET_BYTES)
  const secret = Buffer.concat([key, checkOf(key, set)])
  // coefficients[0] is the secret; the others are random bytes like a key.
  const coefficients = [secret, ...Array.from({ length: need - 1 }, () => random(secret.length))]
  const shares = Array.from({ length: of }, (_, index) => {
    const values = Buffer.alloc(secret.length)
    for (let at = 0; at < values.length; at++)
      values[at] = coefficients.reduceRight((sum, one) => multiply(sum, index + 1) ^ one[at]!, 0)
    return { set, of, need, number: index + 1, values }
  })
  for (const one of coefficients) one.fill(0)
  return shares
}

/**
 * Combines shares to the key. If more shares are given than needed, the error names those that do not belong.
 * @throws ShareError
 */
export function combineShares(shares: readonly KeyShare[]): Buffer {
  const [first] = shares
  if (first === undefined) throw new ShareError('No share was given.')
  const { set, need } = first
  const strangers = shares.filter((one) => !one.set.equals(set) || one.need !== need || one.of !== first.of)
  if (strangers.length > 0)
    throw new ShareError(`Share ${list(strangers)} is of another set than share ${first.number}: they do not belong together.`) // prettier-ignore
  const byNumber = new Map(shares.map((one) => [one.number, one]))
  if (byNumber.size < shares.length) throw new ShareError('A share was given twice.')
  if (shares.length < need) throw new ShareError(`${need} shares are needed, and ${shares.length} were given.`)
  for (const some of choose(shares, need)) {
    const key = interpolate(some, set)
    if (key === null) continue
    const wrong = shares.filter((one) => !some.includes(one) && interpolate([one, ...some.slice(1)], set) === null)
    if (wrong.length > 0) throw new ShareError(`Share ${list(wrong)} is wrong: the others fit together. Leave it out.`)
    return key
  }
  throw new ShareError(
    shares.length === need
      ? 'The shares do not give the key: at least one of them is wrong. With one more share the wrong one can be named.'
      : 'No shares among these give the key: too many of them are wrong.',
  )
}

/**
 * Formats a share: five bits per character, without similar-looking characters (Crockford's alphabet), in groups of four, with a
 * checksum at the end.
 */
export function writeShare({ set, of, need, number, values }: KeyShare): string {
  const head = Buffer.concat([Buffer.of(VERSION), set, Buffer.of(need, of, number), values])
  const text = encode(Buffer.concat([head, sumOf(head)]))
  const groups = text.match(/.{1,4}/g)!
  const rows = Array.from({ length: Math.ceil(groups.length / 7) }, (_, row) => groups.slice(row * 7, row * 7 + 7).join(' ')) // prettier-ignore
  return `Share ${number} of ${of} of a master key (KEK); ${need} of them give it. Set ${set.toString('hex')}.\n${rows.join('\n')}\n`
}

/**
 * Parses a share as printed or typed. Case, spaces and hyphens do not matter; O counts as 0, I and L as 1. A first line that begins
 * with `Share` is ignored.
 * @param name  the name of the share in error messages, such as its file
 * @throws ShareError
 */
export function readShare(text: string, name: string): KeyShare {
  const typed = text.replace(/^\s*share [^\n]*\n/i, '').replace(/[\s-]/g, '')
  const bytes = decode(typed)
  const length = 1 + SET_BYTES + 3 + KEY_BYTES + CHECK_BYTES + SUM_BYTES
  if (bytes === null || bytes.length !== length)
    throw new ShareError(`${name} is not a share: characters are missing, or there are too many.`)
  const head = bytes.subarray(0, -SUM_BYTES)
  if (!sumOf(head).equals(bytes.subarray(-SUM_BYTES)))
    throw new ShareError(`${name} has a mistake: its checksum differs.`)
  const [need, of, number] = head.subarray(1 + SET_BYTES, 4 + SET_BYTES) as unknown as [number, number, number]
  if (head[0] !== VERSION || need < 2 || need > of || number < 1 || number > of)
    throw new ShareError(`${name} is a share of another version.`)
  return { set: head.subarray(1, 1 + SET_BYTES), of, need, number, values: head.subarray(4 + SET_BYTES) }
}

const list = (shares: readonly KeyShare[]): string => shares.map(({ number }) => number).join(' and ')

function* choose<T>(from: readonly T[], count: number): Generator<T[]> {
  if (count === 0) return yield []
  for (let at = 0; at <= from.length - count; at++)
    for (const rest of choose(from.slice(at + 1), count - 1)) yield [from[at]!, ...rest]
}

/** Computes the key at 0 (Lagrange); null if its checksum does not match. */
function interpolate(shares: readonly KeyShare[], set: Buffer): Buffer | null {
  const secret = Buffer.alloc(KEY_BYTES + CHECK_BYTES)
  for (const { number: own, values } of shares) {
    let weight = 1
    for (const { number: other } of shares) if (other !== own) weight = multiply(weight, divide(other, other ^ own))
    for (let at = 0; at < secret.length; at++) secret[at]! ^= multiply(values[at]!, weight)
  }
  const key = secret.subarray(0, KEY_BYTES)
  return timingSafeEqual(checkOf(key, set), secret.subarray(KEY_BYTES)) ? key : null
}

const checkOf = (key: Buffer, set: Buffer): Buffer =>
  hash('sha256', Buffer.concat([Buffer.from('chatelaine master key share 1'), set, key]), 'buffer').subarray(0, CHECK_BYTES) // prettier-ignore

const sumOf = (bytes: Buffer): Buffer => hash('sha256', bytes, 'buffer').subarray(0, SUM_BYTES)

/** Multiplies in GF(256) without tables: the memory accesses of a table would reveal the factors. */
export function multiply(a: number, b: number): number {
  let [product, left] = [0, a]
  for (let bit = 0; bit < 8; bit++) {
    product ^= -((b >> bit) & 1) & left
    left = ((left << 1) ^ (-(left >> 7) & 0x11b)) & 0xff
  }
  return product
}

/** Divides in GF(256), where a^254 is the inverse of a. */
function divide(a: number, b: number): number {
  let inverse = 1
  for (let time = 0; time < 254; time++) inverse = multiply(inverse, b)
  return multiply(a, inverse)
}

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

function encode(bytes: Buffer): string {
  let [text, bits, left] = ['', 0, 0]
  for (const byte of bytes) {
    bits = (bits << 8) | byte
    for (left += 8; left >= 5; left -= 5) text += ALPHABET[(bits >> (left - 5)) & 31]
    bits &= 0xff
  }
  return left === 0 ? text : text + ALPHABET[(bits << (5 - left)) & 31]
}

function decode(text: string): Buffer | null {
  const bytes: number[] = []
  let [bits, left] = [0, 0]
  for (const letter of text.toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1')) {
    const value = ALPHABET.indexOf(letter)
    if (value < 0) return null
    bits = ((bits << 5) | value) & 0xfff
    left += 5
    if (left >= 8) bytes.push((bits >> (left -= 8)) & 0xff)
  }
  // The unused bits of the last character must be 0.
  return (bits & ((1 << left) - 1)) === 0 ? Buffer.from(bytes) : null
}
