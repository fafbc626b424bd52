/**
 * texts: the texts of the pages for users, in five languages.
 * Owns: one table per language (`en.ts` is the shape of all), with the texts for users in problem documents
 *   (`user-messages-en.ts`), choosing one for a request, names of networks, times.
 * Does not own: the pages' HTML (`http/page.ts`, `oauth/`), the texts for developers in problem documents (`errors.ts`), which are
 *   English.
 */

import { de } from './de.ts'
import { en, type Texts } from './en.ts'
import { es } from './es.ts'
import { fr } from './fr.ts'
import { ja } from './ja.ts'

/** Every language of the pages. English is first: it is the default. */
export const languages: readonly Texts[] = [en, de, fr, es, ja]

/** Maximum length of a language preference: browsers send none that is longer. */
const MAX_WISH_CHARACTERS = 500

/**
 * Chooses the language that the user reads best.
 * @param accept     the header `Accept-Language`, RFC 9110 §12.5.4
 * @param uiLocales  the preferences that the application sends, best first, separated by spaces; they precede the
 *                   browser's (OpenID Connect Core §3.1.2.1)
 */
export function textsFor({ accept, uiLocales }: { accept?: string | undefined; uiLocales?: string | null }): Texts {
  const told = (uiLocales ?? '').slice(0, MAX_WISH_CHARACTERS).split(' ')
  return firstOf(told) ?? firstOf(wishesOf((accept ?? '').slice(0, MAX_WISH_CHARACTERS))) ?? en
}

/** Matches the first part of each tag only (RFC 4647 §3.4): `fr-CA` reads French. */
function firstOf(tags: string[]): Texts | undefined {
  for (const tag of tags) {
    const [primary] = tag.toLowerCase().split('-')
    const found = languages.find(({ language }) => language === primary)
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns the tags of an `Accept-Language`, best first, without those of weight 0. */
function wishesOf(accept: string): string[] {
  const wishes = accept.split(',').flatMap((entry) => {
    const [tag = '', ...parameters] = entry.split(';').map((part) => part.trim())
    const weight = parameters.find((one) => /^q=/i.test(one))?.slice(2) ?? '1'
    return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(weight) && Number(weight) > 0 ? [{ tag, weight: Number(weight) }] : []
  })
  return wishes.toSorted((one, other) => other.weight - one.weight).map(({ tag }) => tag)
}
