import type { Texts } from './en.ts'

/** Returns a time as users of a language read it, with its zone. */
export const timeText = ({ locale }: Texts, time: Date): string =>
  `${new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' }).format(time)} UTC`

/** Returns a number of hours in words of a language, with their unit: 1 hour, 24 hours. */
export const hoursText = ({ locale }: Texts, hours: number): string =>
  new Intl.NumberFormat(locale, { style: 'unit', unit: 'hour', unitDisplay: 'long' }).format(hours)
