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
