import { BoundedMap } from '../bounded-map.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { checksumAddress, hasWrongChecksum, isAddress } from '../digits.ts'

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
  if (!hasWrongChecksum(text)) return null
  return { code: 'bad_checksum', detail: 'has mixed case with a wrong checksum (EIP-55)' }
}
