import { isAddress } from '../digits.ts'
import { keccak } from '../keccak.ts'

/** Returns an address as text with its checksum. Source: EIP-55 */
export function checksummed(address: Uint8Array): string {
  const digits = Buffer.from(address).toString('hex')
  const hash = keccak(Buffer.from(digits)).toString('hex')
  return `0x${digits.replaceAll(/[a-f]/g, (digit, index: number) => (hash[index]! > '7' ? digit.toUpperCase() : digit))}`
}

/** Parses an address. Returns null if it is none, or if it has letters of both cases and a wrong checksum. */
export function addressIn(value: unknown): Buffer | null {
  if (!isAddress(value)) return null
  const address = Buffer.from(value.slice(2), 'hex')
  const digits = value.slice(2)
  const isPlain = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  return isPlain || checksummed(address) === value ? address : null
}
