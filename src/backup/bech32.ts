/** Bech32 (BIP 173) without its limit of 90 characters, as in age's keys. */

const DIGITS = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const GENERATOR = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]
const CHECK_LENGTH = 6

/** Encodes bytes in Bech32, in lower case. @param prefix  in lower case */
export function encodeBech32(prefix: string, bytes: Uint8Array): string {
  const words = regroup([...bytes], { from: 8, to: 5, isPadded: true })!
  const check = checksum([...expand(prefix), ...words, ...Array<number>(CHECK_LENGTH).fill(0)]) ^ 1
  const tail = Array.from({ length: CHECK_LENGTH }, (_, n) => (check >>> (5 * (CHECK_LENGTH - 1 - n))) & 31)
  return `${prefix}1${[...words, ...tail].map((word) => DIGITS[word]).join('')}`
}

/** Decodes Bech32. @returns the bytes; null if it is not Bech32 with this prefix, or mixes upper and lower case */
export function decodeBech32(prefix: string, text: string): Buffer | null {
  const lower = text.toLowerCase()
  if (text !== lower && text !== text.toUpperCase()) return null
  if (!lower.startsWith(`${prefix}1`)) return null
  const words = Array.from(lower.slice(prefix.length + 1)).map((digit) => DIGITS.indexOf(digit))
  if (words.length < CHECK_LENGTH || words.includes(-1)) return null
  if (checksum([...expand(prefix), ...words]) !== 1) return null
  const bytes = regroup(words.slice(0, -CHECK_LENGTH), { from: 5, to: 8, isPadded: false })
  return bytes === null ? null : Buffer.from(bytes)
}

const expand = (prefix: string): number[] => {
  const codes = Array.from(prefix).map((letter) => letter.charCodeAt(0))
  return [...codes.map((code) => code >> 5), 0, ...codes.map((code) => code & 31)]
}

function checksum(words: number[]): number {
  let sum = 1
  for (const word of words) {
    const top = sum >>> 25
    sum = ((sum & 0x1ffffff) << 5) ^ word
    for (const [bit, one] of GENERATOR.entries()) if ((top >>> bit) & 1) sum ^= one
  }
  return sum >>> 0
}

/** Regroups bits; null if the remaining bits are not valid padding. */
function regroup(
  words: number[],
  { from, to, isPadded }: { from: number; to: number; isPadded: boolean },
): number[] | null {
  const out: number[] = []
  let [held, bits] = [0, 0]
  for (const word of words) {
    held = ((held << from) | word) & 0xfff
    bits += from
    while (bits >= to) out.push((held >>> (bits -= to)) & ((1 << to) - 1))
  }
  const left = (held << (to - bits)) & ((1 << to) - 1)
  if (isPadded) return bits > 0 ? [...out, left] : out
  return bits >= from || left !== 0 ? null : out
}
