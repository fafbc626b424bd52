import { html } from 'ghtml'
import { formatUnits } from '../abi/units.ts'
import type { Texts } from '../texts/en.ts'

/** Whole units are grouped, and behind the point are at most this many digits that say something. */
const MAX_DECIMALS = 6

/** An amount of the smallest unit and what it is counted in. */
export type Amount = { value: bigint; decimals: number; symbol: string }

/**
 * An amount as people of a language read it, through no float. What is cut off is never rounded up: nobody is shown more
 * than there is.
 * @returns `short`, and `full` with every digit; the same where nothing was cut off
 */
export function amountText(
  { locale }: Texts,
  { value, decimals }: Omit<Amount, 'symbol'>,
): { short: string; full: string } {
  const [whole = '0', fraction = ''] = formatUnits(value, decimals).split('.')
  const { mark, grouped } = numbersOf(locale)
  // Below one, the zeros after the point are not counted: seven millionths are no nothing.
  const zeros = whole === '0' ? fraction.length - fraction.replace(/^0+/, '').length : 0
  const kept = fraction.slice(0, zeros + MAX_DECIMALS).replace(/0+$/, '')
  const written = (digits: string): string => `${grouped(whole)}${digits === '' ? '' : `${mark}${digits}`}`
  return { short: kept === fraction ? written(fraction) : `${written(kept)}…`, full: written(fraction) }
}

/** The mark between whole and parts, and whole units in groups, as a language writes them. */
function numbersOf(locale: string): { mark: string; grouped: (whole: string) => string } {
  const format = new Intl.NumberFormat(locale)
  const mark = format.formatToParts(1.5).find(({ type }) => type === 'decimal')!.value
  return { mark, grouped: (whole) => format.format(BigInt(whole)) }
}

/** The same as HTML: every digit is there for those who point at it, reach it by key or have it read to them. */
export function amountHtml(words: Texts, amount: Amount, sign = ''): string {
  const { short, full } = amountText(words, amount)
  const symbol = amount.symbol === '' ? '' : ` ${amount.symbol}`
  if (short === full) return html`${sign}${full}${symbol}`
  return html`<span class="amount" tabindex="0"
    ><span aria-hidden="true">${sign}${short}${symbol}</span><span class="full">${sign}${full}${symbol}</span></span
  >`
}

/** From a sign of ASCII to its full-width form. Source: Unicode, Halfwidth and Fullwidth Forms */
const WIDER = 0xfee0

/** What someone typed as an amount, as digits with at most one point; null for what could be meant in two ways. */
export function readTyped({ locale }: Texts, text: string): string | null {
  // Who types Japanese may type “１．５”: the same signs, wider. Nothing else that looks like a digit is taken for one.
  const typed = text.trim().replaceAll(/[０-９．，]/g, (sign) => String.fromCodePoint(sign.codePointAt(0)! - WIDER))
  const { mark } = numbersOf(locale)
  const plain = mark === ',' ? typed.replace(',', '.') : typed
  // Where the comma is the mark a point parts thousands: “1.000” is one of two amounts.
  if (mark === ',' && /^[1-9]\d{0,2}\.\d{3}$/.test(typed)) return null
  return /^(\d*\.)?\d+$/.test(plain) && plain.length <= 200 ? plain : null
}
