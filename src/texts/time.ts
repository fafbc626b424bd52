import type { Texts } from './en.ts'

/** A moment as people of a language read it, with its zone. */
export const timeText = ({ locale }: Texts, time: Date): string =>
  `${new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' }).format(time)} UTC`
