import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { isAddress } from '../digits.ts'

const MAX_REMEMBERED = 4_096
// Valid addresses of 42 characters each: callers can change what is here, not how much.
const remembered = new BoundedMap<string, Hex>(MAX_REMEMBERED)

/**
 * An address from a path or a body, checksummed. Contracts are named again and again, and a checksum costs a
 * Keccak-256, so the last ones are remembered.
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

/** What is wrong with an address, as the end of a sentence; null when nothing is. */
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
 * Costs about 2 µs, and keeps nothing: the addresses of results are all different.
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
