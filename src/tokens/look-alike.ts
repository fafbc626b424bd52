/**
 * For each Latin letter or digit, the letters that look like it. Excludes letters that compatibility forms (NFKD)
 * equate. Source: Unicode UTS 39, confusables.txt, for scripts that fonts draw alike.
 */
const DRAWN_ALIKE: Readonly<Record<string, string>> = {
  A: 'АΑᎪꓮ', B: 'ВΒᏴꓐ', C: 'СϹᏟꓚ', D: 'ᎠꓓĐÐ', E: 'ЕΕᎬꓰ', F: 'Ϝꓝ', G: 'ԌᏀꓖ', H: 'НΗᎻꓧ', I: 'ІΙӀᏆꓲ', J: 'ЈᎫꓙ', K: 'КΚᏦꓗ',
  L: 'ᏞꓡԼŁ', M: 'МΜᎷꓟ', N: 'Νꓠ', O: 'ОΟՕꓳØ', P: 'РΡᏢꓑ', Q: 'Ԛ', R: 'ᎡᏒꓣ', S: 'ЅՏᏚꓢ', T: 'ТΤᎢꓔŦ', U: 'ՍᑌꓴЦ', V: 'ѴᏙꓦ', W: 'ԜᎳꓪ',
  X: 'ХΧꓫ', Y: 'УΥҮꓬ', Z: 'ΖᏃꓜ', a: 'аαɑᴀ', b: 'ЬƄʙ', c: 'сϲᴄ', d: 'ԁᏧᴅđ', e: 'еҽᴇ', f: 'ғք', g: 'ɡցɢ', h: 'һհʜ', i: 'іɩɪ',
  j: 'јϳᴊ', k: 'кκᴋ', l: 'ӏʟł', m: 'мᴍ', n: 'пոɴ', o: 'оοσօᴏø', p: 'рρᴘ', q: 'ԛ', r: 'гʀ', s: 'ѕꜱ', t: 'тτᴛŧ', u: 'υսᴜʋ', v: 'ѵνᴠ', w: 'ԝᴡ',
  x: 'хχ', y: 'уγүʏ', z: 'ᴢʐ',
} // prettier-ignore

const LATIN = new Map(
  Object.entries(DRAWN_ALIKE).flatMap(([latin, others]) => Array.from(others, (one) => [one, latin] as const)),
)

/** Currency signs that issuers themselves use as letters, as in USD₮. They are not a disguise. */
const SIGNS = new Map(Object.entries({ '₮': 'T', $: 'S', '€': 'E', Ξ: 'E', '₿': 'B', Ð: 'D', Ł: 'L' }))

/**
 * Scripts that look like Latin but do not occur in one word with Latin. Greek is excluded: αETH and βDAI are genuine
 * names.
 */
const FOREIGN = /[\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}]/u
const LATIN_LETTER = /\p{Script=Latin}/u

/** Replaces each letter by the Latin one that it looks like, and removes marks. */
export const asDrawn = (text: string): string =>
  Array.from(text.normalize('NFKD').replace(/\p{M}/gu, ''), (one) => LATIN.get(one) ?? one).join('')

/**
 * Returns a key that is equal for texts that look alike. Ignores punctuation, spaces and pictures: "USDC ✔" equals
 * "USDC".
 */
export function drawnKey(text: string): string {
  const letters = Array.from(asDrawn(withoutSigns(text))).filter((one) => /[\p{L}\p{N}]/u.test(one))
  // Replace strokes before lower-casing: a capital I and a small l look alike, a capital L does not.
  const strokes = letters.map((one) => (/[Il1]/.test(one) ? '1' : one)).join('').toLowerCase() // prettier-ignore
  return strokes.replaceAll('0', 'o').replaceAll('5', 's').replaceAll('rn', 'm').replaceAll('vv', 'w')
}

const withoutSigns = (text: string): string => Array.from(text, (one) => SIGNS.get(one) ?? one).join('')

/**
 * Returns a key that is equal for texts that are spelt alike, ignoring case, spaces, punctuation and currency signs.
 */
export const speltKey = (text: string): string =>
  withoutSigns(text.replace(/^\$/, ''))
    .replace(/[^\p{L}\p{N}]/gu, '')
    .toLowerCase()

/**
 * Returns whether a text has letters of another script, or marks, that look like Latin letters. Currency signs do not
 * count.
 */
export const isDisguised = (text: string): boolean =>
  Array.from(text).some(
    (one) => !SIGNS.has(one) && one > '\u007f' && /[\p{L}\p{N}\p{M}]/u.test(one) && isLatinDrawn(one),
  )

const isLatinDrawn = (one: string): boolean => /^[a-z0-9]*$/i.test(asDrawn(one))

/** Returns whether a word mixes letters of two scripts that do not occur together in genuine words. */
export const hasMixedScripts = (text: string): boolean =>
  text.split(/[^\p{L}\p{M}]+/u).some((word) => FOREIGN.test(word) && LATIN_LETTER.test(word))
