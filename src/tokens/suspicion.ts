import type { Hex } from '../ids.ts'
import { asDrawn, drawnKey, hasMixedScripts, isDisguised, speltKey } from './look-alike.ts'
import type { TokenType } from './record.ts'
import { MAX_POINTS, type TokenReason } from './spam-wire.ts'

/** Suspicion of spam by a token's symbol and name: 50 points or more count as spam. */
export type TokenSuspicion = { points: number; reasons: TokenReason[] }

/** Known tokens of a network by lower-case address, and its native currency. Created by `knownTokens`. */
export type KnownTokens = {
  byAddress: ReadonlyMap<Hex, CalledToken>
  native: CalledToken
  /** comparison keys of all known tokens */
  models: readonly ModelKeys[]
}

/** Symbol and name of a token or of the native currency. */
export type CalledToken = { symbol: string; name: string }

type ModelKeys = { symbol: TextKeys; name: TextKeys }
type TextKeys = { drawn: string; spelt: string }

const keysOf = (text: string): TextKeys => ({ drawn: drawnKey(text), spelt: speltKey(text) })

/** Prepares known tokens for comparison. */
export const knownTokens = (byAddress: ReadonlyMap<Hex, CalledToken>, native: CalledToken): KnownTokens => ({
  byAddress,
  native,
  models: [...byAddress.values(), native].map(({ symbol, name }) => ({ symbol: keysOf(symbol), name: keysOf(name) })),
})

/** Symbol and name that a token reports: hostile input, but cleaned. */
export type ToldToken = { address: Hex; tokenType: TokenType; symbol: string; name: string }

/**
 * Symbols that are often imitated, even if the operator lists none. Only disguised forms count: any token may have the
 * plain symbol.
 */
const IMITATED = 'ETH WETH STETH WSTETH RETH CBETH WEETH BTC WBTC CBBTC TBTC BNB WBNB POL MATIC AVAX WAVAX USDT USDC DAI BUSD TUSD USDE SUSDE PYUSD FDUSD FRAX USDS GHO EURC XAUT PAXG LINK UNI AAVE ARB OP CRV LDO MKR SHIB PEPE APE GRT ENS SUSHI COMP'.split(' ').map(keysOf) // prettier-ignore

const POINTS = {
  disguised: 80,
  twin: 60,
  /** an equal symbol without further signs: symbols are not unique */
  namesake: 25,
  sameName: 20,
  scheme: 70,
  path: 60,
  /** low, because some protocols are named after their site: yearn.finance, Curve.fi */
  site: 20,
  call: 50,
  lure: 30,
  anotherLure: 15,
  money: 30,
  mixed: 40,
} as const

const TOP_LEVEL = 'com|org|net|io|xyz|app|fi|finance|site|online|top|club|info|pro|live|vip|cc|co|me|gg|lol|fun|gift|gifts|claim|claims|cash|money|network|link|click|website|space|tech|dev|eu|us|uk|ru|cn|in|to|ly|events|event|exchange|promo|bonus|win|cloud|page|world|today|digital|capital|zone|store|shop' // prettier-ignore
const SITE = String.raw`(?<![\w.-])(?:[a-z0-9-]+\.)+(?:${TOP_LEVEL})(?![\w-])`
const SCHEME = /https?\s*:|\bhxxps?\b|\bwww\s*\.|\bt\.me\b|\bbit\.ly\b|\bdiscord\.gg\b|\btinyurl\b/
const PATH = new RegExp(String.raw`${SITE}\/\S`)
const ANY_SITE = new RegExp(SITE)
const CALL = /\b(claim|redeem|receive)\s+(your|ur|now|here|at|on|free|\$?\d)|\bvisit\s+\S+\s+(to|and|for)\b|\b(visit|go to|check)\b.*\b(claim|reward|redeem|receive|website|site)|\bto\s+(claim|redeem|receive)\b|\bclaim\s*:/ // prettier-ignore
const LURES = /\b(claim|claims|claimable|visit|rewards?|airdrops?|bonus|vouchers?|redeem|giveaway|gifts?|winner|eligible|prize|free)\b/g // prettier-ignore
const MONEY = /\$\s?\d[\d.,]*|\b\d[\d.,]*\s?k?\s?\$|\b\d[\d.,]*\s?k?\s?(usdc|usdt|usd|eth|weth|steth|btc|wbtc|dai|bnb|matic|arb|op)\b/ // prettier-ignore

/** Rates a token's symbol and name. A known token has no points. */
export function suspectToken(token: ToldToken, known: KnownTokens): TokenSuspicion {
  const suspicion: TokenSuspicion = { points: 0, reasons: [] }
  if (known.byAddress.has(token.address)) return suspicion
  const add = (reason: TokenReason, points: number) => {
    if (points === 0) return
    suspicion.points = Math.min(MAX_POINTS, suspicion.points + points)
    suspicion.reasons.push(reason)
  }
  const imitation = imitationOf(token, known)
  add('look_alike_symbol', imitation.disguised)
  add('same_symbol', imitation.same)
  const words = `${token.symbol} ${token.name}`
  const text = asDrawn(words).toLowerCase().replace(/\s*(?:\[\.\]|\(\.\)|\(dot\)|\[dot\]|[。｡․﹒．])\s*/g, '.') // prettier-ignore
  add('link_in_name', SCHEME.test(text) ? POINTS.scheme : PATH.test(text) ? POINTS.path : ANY_SITE.test(text) ? POINTS.site : 0) // prettier-ignore
  add('lure_in_name', lureOf(text, ANY_SITE.test(text)))
  add('mixed_scripts', hasMixedScripts(words) ? POINTS.mixed : 0)
  return suspicion
}

/**
 * Rates lures. An amount of money alone also occurs in names of options and pools; together with a site or a promise it
 * is a lure.
 */
function lureOf(text: string, hasSite: boolean): number {
  if (CALL.test(text)) return POINTS.call
  const lures = new Set(text.match(LURES)).size
  const promises = lures === 0 ? 0 : POINTS.lure + (lures > 1 ? POINTS.anotherLure : 0)
  return promises + ((lures > 0 || hasSite) && MONEY.test(text) ? POINTS.money : 0)
}

function imitationOf(
  { symbol, name, tokenType }: ToldToken,
  { models }: KnownTokens,
): { disguised: number; same: number } {
  const [own, called] = [keysOf(symbol), keysOf(name)]
  const isDrawnLike = (model: TextKeys, text: TextKeys) => model.spelt !== '' && model.drawn === text.drawn && model.spelt !== text.spelt // prettier-ignore
  const isImitated = (model: TextKeys) =>
    (isDrawnLike(model, own) && isDisguised(symbol)) || (isDrawnLike(model, called) && isDisguised(name))
  const isImitation =
    models.some((model) =>
      [own, called].some((text) => isDrawnLike(model.symbol, text) || isDrawnLike(model.name, text)),
    ) || // prettier-ignore
    IMITATED.some(isImitated)
  if (isImitation) return { disguised: POINTS.disguised, same: 0 }
  // A collection with the symbol of a currency is not mistaken for it.
  if (tokenType !== 'ERC20') return { disguised: 0, same: 0 }
  const words = name.split(/[^\p{L}\p{N}]+/u).map(speltKey)
  const same = models.map((model) => {
    const theirs = model.name.spelt
    if (own.spelt !== model.symbol.spelt || own.spelt === '')
      return called.spelt !== '' && called.spelt === theirs ? POINTS.sameName : 0
    const saysTheirs = theirs !== '' && called.spelt.includes(theirs)
    const isBeginning = called.spelt.length > 2 && theirs.startsWith(called.spelt)
    return called.spelt === '' || words.includes(own.spelt) || saysTheirs || isBeginning ? POINTS.twin : POINTS.namesake
  })
  return { disguised: 0, same: Math.max(0, ...same) }
}
