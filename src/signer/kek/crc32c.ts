/** Computes the CRC32C (Castagnoli), reflected. Source: RFC 3720 appendix B.4 */
export function crc32c(bytes: Uint8Array): number {
  let sum = 0xffff_ffff
  for (const byte of bytes) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (0x82f6_3b78 & -(sum & 1))
  }
  return ~sum >>> 0
}
