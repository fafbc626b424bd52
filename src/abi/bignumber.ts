/** The big-number object of the specification, serialized as in ethers 5. */
export type BigNumber = { type: 'BigNumber'; hex: string }

/** Builds a big-number object. `hex` has an even number of digits: `0x00`, `0x0100`, `-0x05`. */
export function bigNumber(value: bigint): BigNumber {
  const digits = (value < 0n ? -value : value).toString(16)
  const sign = value < 0n ? '-' : ''
  return { type: 'BigNumber', hex: `${sign}0x${digits.length % 2 === 0 ? '' : '0'}${digits}` }
}
