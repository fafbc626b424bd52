/**
 * Formats an amount in whole units, exactly and without trailing zeros: "0.025", "7569809.5", "0".
 * @param value     smallest unit
 * @param decimals  0 to 255, as a token may claim
 */
export function formatUnits(value: bigint, decimals: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${value < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`
}

/** An amount in whole units: `digits`, of which the last `places` are decimal places. */
export type Decimal = { digits: bigint; places: number }

/**
 * Parses "12", "0.5", ".5" exactly, without a float. Trailing zeros are ignored.
 * @param text  digits with at most one point, which a digit must follow
 */
export function readDecimal(text: string): Decimal {
  const [whole = '', fraction = ''] = text.split('.')
  const places = fraction.replace(/0+$/, '')
  return { digits: BigInt(`0${whole}${places}`), places: places.length }
}

/** Converts an amount to the smallest unit. Returns null if it has too many decimal places. */
export const scaleDecimal = ({ digits, places }: Decimal, decimals: number): bigint | null =>
  places > decimals ? null : digits * 10n ** BigInt(decimals - places)
