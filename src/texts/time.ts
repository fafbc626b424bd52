import type { Texts } from './en.ts'

/** One per language: to open a format takes a hundred times as long as to use it, and a page has up to a hundred times. */
const formats = new Map<string, Intl.DateTimeFormat>()

function openFormat(locale: string): Intl.DateTimeFormat {
  const format = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
  formats.set(locale, format)
  return format
}

/** Returns a time as users of a language read it, with its zone. */
export const timeText = ({ locale }: Texts, time: Date): string =>
  `${(formats.get(locale) ?? openFormat(locale)).format(time)} UTC`

/** Returns a number of hours in words of a language, with their unit: 1 hour, 24 hours. */
export const hoursText = ({ locale }: Texts, hours: number): string =>
  new Intl.NumberFormat(locale, { style: 'unit', unit: 'hour', unitDisplay: 'long' }).format(hours)
