/** JSON in which one field is a data key. The field is handled as bytes, which can be zeroed; a string could not. */

/** Writes an object of text fields, one of which is a secret in base64. The caller must zero the result. */
export function writeWithSecret(secret: { field: string; bytes: Buffer }, fields: Record<string, unknown>): Buffer {
  const encoded = encodeBase64(secret.bytes)
  const rest = JSON.stringify(fields).slice(1)
  const parts = [Buffer.from(`{${JSON.stringify(secret.field)}:"`), encoded, Buffer.from(rest === '}' ? '"}' : `",${rest}`)] // prettier-ignore
  const body = Buffer.concat(parts)
  encoded.fill(0)
  return body
}

/**
 * Parses an object and extracts the secret of its one field with this name; `json` has a blank in its place. It zeroes `body`.
 * @returns `json` null if it is not JSON; `secret` null if the field is missing, occurs twice or is not base64. The caller must
 * zero the secret.
 */
export function readWithSecret(body: Buffer, field: string): { json: unknown; secret: Buffer | null } {
  const secret = liftSecret(body, Buffer.from(JSON.stringify(field)))
  try {
    return { json: JSON.parse(body.toString('utf8')) as unknown, secret }
  } catch {
    return { json: null, secret }
  } finally {
    body.fill(0)
  }
}

const [QUOTE, BACKSLASH, COLON, BLANK] = [0x22, 0x5c, 0x3a, 0x20]

function liftSecret(body: Buffer, name: Buffer): Buffer | null {
  let found: Buffer | null = null
  let count = 0
  for (let at = body.indexOf(name); at !== -1; at = body.indexOf(name, at + 1)) {
    let start = skipBlanks(body, at + name.length)
    if (body[start] !== COLON) continue
    start = skipBlanks(body, start + 1)
    if (body[start] !== QUOTE) continue
    count += 1
    let end = start + 1
    while (end < body.length && body[end] !== QUOTE) end += body[end] === BACKSLASH ? 2 : 1
    found?.fill(0)
    found = decodeEscaped(body.subarray(start + 1, end))
    body.fill(BLANK, start + 1, end)
  }
  if (count === 1) return found
  found?.fill(0)
  return null
}

function skipBlanks(body: Buffer, from: number): number {
  let at = from
  while (at < body.length && /[ \t\r\n]/.test(String.fromCharCode(body[at]!))) at += 1
  return at
}

/** Decodes base64 in which the JSON writer escaped `/`, `+` or `=`. */
function decodeEscaped(text: Buffer): Buffer | null {
  const plain = Buffer.alloc(text.length)
  let length = 0
  try {
    for (let at = 0; at < text.length; at++) {
      if (text[at] !== BACKSLASH) {
        plain[length++] = text[at]!
        continue
      }
      const escaped = text[++at]
      if (escaped !== 0x75) {
        plain[length++] = escaped ?? 0
        continue
      }
      plain[length++] = Number.parseInt(text.toString('latin1', at + 1, at + 5), 16) & 0x7f
      at += 4
    }
    return decodeBase64(plain.subarray(0, length))
  } finally {
    plain.fill(0)
  }
}

const ALPHABET = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const PADDING = 0x3d

/** Encodes bytes in base64 (RFC 4648 §4), as bytes. */
export function encodeBase64(bytes: Buffer): Buffer {
  const text = Buffer.alloc(Math.ceil(bytes.length / 3) * 4, PADDING)
  for (let from = 0, to = 0; from < bytes.length; from += 3, to += 4) {
    const left = bytes.length - from
    const group = (bytes[from]! << 16) | ((bytes[from + 1] ?? 0) << 8) | (bytes[from + 2] ?? 0)
    for (let digit = 0; digit <= Math.min(left, 3); digit++)
      text[to + digit] = ALPHABET[(group >> (18 - 6 * digit)) & 63]!
  }
  return text
}

/** Decodes base64; null if it is empty or not in canonical form. */
export function decodeBase64(text: Buffer): Buffer | null {
  let end = text.length
  if (end === 0 || end % 4 !== 0) return null
  for (let padding = 0; padding < 2 && text[end - 1] === PADDING; padding++) end -= 1
  const bytes = Buffer.alloc(Math.floor((end * 3) / 4))
  let [bits, left, to] = [0, 0, 0]
  for (let at = 0; at < end; at++) {
    const value = ALPHABET.indexOf(text[at]!)
    if (value < 0) {
      bytes.fill(0)
      return null
    }
    bits = ((bits << 6) | value) & 0xfff
    left += 6
    if (left >= 8) bytes[to++] = (bits >> (left -= 8)) & 0xff
  }
  // The unused bits of the last character must be 0.
  if ((bits & ((1 << left) - 1)) === 0) return bytes
  bytes.fill(0)
  return null
}
