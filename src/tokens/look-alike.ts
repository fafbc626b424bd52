/**
 * Letters that are drawn like a Latin one or a digit, beside those that compatibility forms (NFKD) already make equal:
 * for each Latin letter the others. Source: Unicode UTS 39, confusables.txt, those of scripts that fonts draw alike.
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

/** Signs of currencies that issuers themselves write for a letter, as in USD₮: they disguise nothing. */
const SIGNS = new Map(Object.entries({ '₮': 'T', $: 'S', '€': 'E', Ξ: 'E', '₿': 'B', Ð: 'D', Ł: 'L' }))

/** Words of more than one script of which one is drawn like Latin. Greek letters are part of honest names: αETH, βDAI. */
const FOREIGN = /[\p{Script=Cyrillic}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Lisu}]/u
const LATIN_LETTER = /\p{Script=Latin}/u

/** A text as it is drawn: every letter by the Latin one that it looks like, without marks. */
export const asDrawn = (text: string): string =>
  Array.from(text.normalize('NFKD').replace(/\p{M}/gu, ''), (one) => LATIN.get(one) ?? one).join('')

/**
 * What two texts have in common that people cannot tell apart. Equal texts have equal ones; punctuation, spaces and pictures count for
 * nothing, so that "USDC ✔" is "USDC".
 */
export function drawnKey(text: string): string {
  const letters = Array.from(asDrawn(withoutSigns(text))).filter((one) => /[\p{L}\p{N}]/u.test(one))
  // Before lower case: a capital I and a small l are one stroke, a capital L is not.
  const strokes = letters.map((one) => (/[Il1]/.test(one) ? '1' : one)).join('').toLowerCase() // prettier-ignore
  return strokes.replaceAll('0', 'o').replaceAll('5', 's').replaceAll('rn', 'm').replaceAll('vv', 'w')
}

const withoutSigns = (text: string): string => Array.from(text, (one) => SIGNS.get(one) ?? one).join('')

/** What two texts have in common when they are spelt alike: case, spaces, punctuation and signs of currencies aside. */
export const speltKey = (text: string): string =>
  withoutSigns(text.replace(/^\$/, ''))
    .replace(/[^\p{L}\p{N}]/gu, '')
    .toLowerCase()

/** Letters of another script, or marks, where a Latin letter is drawn. Signs of currencies are none. */
export const isDisguised = (text: string): boolean =>
  Array.from(text).some(
    (one) => !SIGNS.has(one) && one > '\u007f' && /[\p{L}\p{N}\p{M}]/u.test(one) && isLatinDrawn(one),
  )

const isLatinDrawn = (one: string): boolean => /^[a-z0-9]*$/i.test(asDrawn(one))

/** Words in which letters of two scripts stand together that nobody writes in one word. */
export const hasMixedScripts = (text: string): boolean =>
  text.split(/[^\p{L}\p{M}]+/u).some((word) => FOREIGN.test(word) && LATIN_LETTER.test(word))
