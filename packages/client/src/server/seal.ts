/** Seals texts for cookies and stores. */
export type Seal = {
  /** Encrypts a text. @param place  where it will be stored: it opens nowhere else */
  close(text: string, place: string): Promise<string>
  /** Decrypts what `close` returned for the same place. @returns null if it was changed, or sealed with another secret */
  open(sealed: string, place: string): Promise<string | null>
}

const MIN_SECRET_CHARACTERS = 32
const SALT_BYTES = 16
const IV_BYTES = 12
const TAG_BYTES = 16

/**
 * Opens a seal: AES-256-GCM, with a key for each text, derived from the secret and a random salt (HKDF-SHA-256). So one secret
 * serves for any number of texts.
 * @param secrets  the first seals; the others still open
 * @throws Error  if a secret is too short
 */
export function openSeal(secrets: readonly string[]): Seal {
  if (secrets.length === 0 || secrets.some((secret) => secret.length < MIN_SECRET_CHARACTERS))
    throw new Error(`Each cookieSecret must have at least ${MIN_SECRET_CHARACTERS} random characters.`)
  const bases = secrets.map((secret) => crypto.subtle.importKey('raw', encode(secret), 'HKDF', false, ['deriveKey']))

  async function keyOf(base: CryptoKey, salt: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
    const how = { name: 'HKDF', hash: 'SHA-256', salt, info: encode('chatelaine client cookie') }
    return crypto.subtle.deriveKey(how, base, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt'])
  }

  return {
    async close(text, place) {
      const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES))
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
      const key = await keyOf((await bases[0])!, salt)
      const how = { name: 'AES-GCM', iv, additionalData: encode(place) }
      const encrypted = new Uint8Array(await crypto.subtle.encrypt(how, key, encode(text)))
      return toText(new Uint8Array([...salt, ...iv, ...encrypted]))
    },
    async open(sealed, place) {
      const bytes = toBytes(sealed)
      if (bytes === null || bytes.length < SALT_BYTES + IV_BYTES + TAG_BYTES) return null
      const salt = bytes.slice(0, SALT_BYTES)
      const iv = bytes.slice(SALT_BYTES, SALT_BYTES + IV_BYTES)
      const encrypted = bytes.slice(SALT_BYTES + IV_BYTES)
      for (const base of bases) {
        const key = await keyOf((await base)!, salt)
        const how = { name: 'AES-GCM', iv, additionalData: encode(place) }
        const text = await crypto.subtle.decrypt(how, key, encrypted).catch(() => null)
        if (text !== null) return new TextDecoder().decode(text)
      }
      return null
    },
  }
}

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text)

const toText = (bytes: Uint8Array): string =>
  btoa(Array.from(bytes, (byte) => String.fromCodePoint(byte)).join(''))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

function toBytes(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[\w-]+$/.test(text)) return null
  try {
    return Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (character) =>
      character.codePointAt(0)!,
    )
  } catch {
    return null
  }
}
