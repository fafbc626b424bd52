/**
 * An amount in whole units, exact and without trailing zeros: "0.025", "7569809.5", "0".
 * @param value     smallest unit
 * @param decimals  0 to 255: a token may claim any of them
 */
export function formatUnits(value: bigint, decimals: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${value < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`
}

/** An amount in whole units as it was written: `digits` with the last `places` of them behind the point. */
export type Decimal = { digits: bigint; places: number }

/**
 * Reads "12", "0.5", ".5": exactly, through no float. Zeros at the end say nothing.
 * @param text  digits with at most one point, and a digit behind it
 */
export function readDecimal(text: string): Decimal {
  const [whole = '', fraction = ''] = text.split('.')
  const places = fraction.replace(/0+$/, '')
  return { digits: BigInt(`0${whole}${places}`), places: places.length }
}

/** In the smallest unit; null when it has more places than there are. */
export const scaleDecimal = ({ digits, places }: Decimal, decimals: number): bigint | null =>
  places > decimals ? null : digits * 10n ** BigInt(decimals - places)
