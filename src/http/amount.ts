import { html } from 'ghtml'
import { formatUnits } from '../abi/units.ts'
import type { Texts } from '../texts/en.ts'

/** Maximum of significant decimal places in the short form. */
const MAX_DECIMALS = 3

/** An amount in the smallest unit, with its decimals and symbol. */
export type Amount = { value: bigint; decimals: number; symbol: string }

/**
 * Formats an amount for readers of a language, without floats. It truncates and never rounds up, so that nobody is
 * shown more than there is.
 * @returns `short` (truncated) and `full` (every digit); equal if nothing was truncated
 */
export function amountText(
  { locale }: Texts,
  { value, decimals }: Omit<Amount, 'symbol'>,
): { short: string; full: string } {
  const [whole = '0', fraction = ''] = formatUnits(value, decimals).split('.')
  const { mark, grouped } = numbersOf(locale)
  // Below 1, leading zeros do not count: 0.0000007 must not be shown as 0.
  const zeros = whole === '0' ? fraction.length - fraction.replace(/^0+/, '').length : 0
  const kept = fraction.slice(0, zeros + MAX_DECIMALS).replace(/0+$/, '')
  const written = (digits: string): string => `${grouped(whole)}${digits === '' ? '' : `${mark}${digits}`}`
  return { short: written(kept), full: written(fraction) }
}

/** Returns the decimal mark of a language, and a function that groups the digits of a whole number. */
function numbersOf(locale: string): { mark: string; grouped: (whole: string) => string } {
  const format = new Intl.NumberFormat(locale)
  const mark = format.formatToParts(1.5).find(({ type }) => type === 'decimal')!.value
  return { mark, grouped: (whole) => format.format(BigInt(whole)) }
}

/** Formats an amount as HTML. All digits are available on hover, on keyboard focus and to screen readers. */
export function amountHtml(words: Texts, amount: Amount, sign = ''): string {
  const { short, full } = amountText(words, amount)
  const symbol = amount.symbol === '' ? '' : ` ${amount.symbol}`
  if (short === full) return html`${sign}${full}${symbol}`
  return html`<span class="amount" tabindex="0"
    ><span aria-hidden="true">${sign}${short}${symbol}</span><span class="full">${sign}${full}${symbol}</span></span
  >`
}

/** Writes an amount with every digit and without groups, as `readTyped` reads it back. */
export const typedText = ({ locale }: Texts, { value, decimals }: Omit<Amount, 'symbol'>): string =>
  formatUnits(value, decimals).replace('.', numbersOf(locale).mark)

/** Distance from an ASCII character to its full-width form. Source: Unicode, Halfwidth and Fullwidth Forms */
const WIDER = 0xfee0

/** Parses an amount that a user typed. Returns digits with at most one point, or null if it is invalid or ambiguous. */
export function readTyped({ locale }: Texts, text: string): string | null {
  // Japanese input may use full-width characters (“１．５”). No other digits are accepted.
  const typed = text.trim().replaceAll(/[０-９．，]/g, (sign) => String.fromCodePoint(sign.codePointAt(0)! - WIDER))
  const { mark } = numbersOf(locale)
  const plain = mark === ',' ? typed.replace(',', '.') : typed
  // If the comma is the decimal mark, a point may group thousands: “1.000” is ambiguous.
  if (mark === ',' && /^[1-9]\d{0,2}\.\d{3}$/.test(typed)) return null
  return /^(\d*\.)?\d+$/.test(plain) && plain.length <= 200 ? plain : null
}
