import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { isAddress } from '../digits.ts'

const MAX_REMEMBERED = 4_096
// Holds valid addresses of 42 characters. Callers can change its entries, but not its size.
const remembered = new BoundedMap<string, Hex>(MAX_REMEMBERED)

/**
 * Parses an address and adds its checksum. The same contracts occur again and again, and a checksum costs a Keccak-256,
 * so recent results are cached.
 * @throws invalid_address  unless it is 0x and 40 digits, in one case or with the right checksum
 */
export function readAddress(text: string): Hex {
  const known = remembered.get(text)
  if (known !== undefined) return known
  const problem = explainAddress(text)
  if (problem) throw new AppError('invalid_address', `The address ${problem.detail}.`)
  const address = checksumAddress(text.toLowerCase())
  remembered.set(text, address)
  return address
}

/** Returns what is wrong with an address; `detail` is the end of a sentence. Returns null for a valid address. */
export function explainAddress(text: string): { code: string; detail: string } | null {
  if (!isAddress(text)) {
    return { code: 'not_an_address', detail: 'must be 0x and 40 hexadecimal digits' }
  }
  const digits = text.slice(2)
  const hasChecksum = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  if (!hasChecksum || checksumAddress(text.toLowerCase()) === text) return null
  return { code: 'bad_checksum', detail: 'has mixed case with a wrong checksum (EIP-55)' }
}

/**
 * Adds the EIP-55 checksum. Costs about 2 µs. Nothing is cached, because addresses of results are mostly distinct.
 * @param address  0x and 40 lower-case digits
 * Source: EIP-55
 */
export function checksumAddress(address: string): Hex {
  const digits = address.slice(2)
  const hash = keccak(Buffer.from(digits, 'latin1'))
  let checksummed = '0x'
  for (let index = 0; index < 40; index++) {
    const nibble = (hash[index >> 1]! >> (index % 2 === 0 ? 4 : 0)) & 0x0f
    const digit = digits[index]!
    checksummed += nibble >= 8 ? digit.toUpperCase() : digit
  }
  return checksummed as Hex
}
