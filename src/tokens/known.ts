import { readFileSync } from 'node:fs'
import { explainAddress } from '../abi/address.ts'
import { cleanText } from '../abi/text.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { slot } from '../state.ts'
import { knownTokens as knownOf, type KnownTokens } from './suspicion.ts'

/** Tokens that the operator listed, by chain id and lower-case address: `11155111:0x…`. */
export type ListedTokens = NonNullable<App['knownTokens']>
export type ListedToken = ListedTokens extends ReadonlyMap<string, infer Token> ? Token : never

const KEY = /^([1-9][0-9]{0,15}):(0x[0-9a-fA-F]{40})$/
const FIELDS = ['symbol', 'decimals', 'name', 'logoURI', 'allowPrivate']
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

/**
 * Reads KNOWN_TOKENS_FILE, an object like `tokens` of a policy: `{"11155111:0x…": {"symbol": "USDC", "decimals": 6,
 * "name": "USD Coin", "logoURI": "https://…"}}`. Only `symbol` is required; `decimals` is not used.
 * @param allowsHttp  for pictures on this machine; never in production
 * @throws Error naming every problem
 */
export function readKnownTokens(file: string, { allowsHttp = false }: { allowsHttp?: boolean } = {}): ListedTokens {
  let content: unknown
  try {
    content = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    const isThere = error instanceof SyntaxError
    throw new Error(isThere ? 'KNOWN_TOKENS_FILE does not hold JSON' : 'KNOWN_TOKENS_FILE cannot be read', { cause: error }) // prettier-ignore
  }
  if (!isObject(content)) throw new Error('KNOWN_TOKENS_FILE must be an object of tokens by chain id and address')
  const problems: string[] = []
  const tokens = new Map<string, ListedToken>()
  for (const [key, token] of Object.entries(content)) {
    const refuse = (problem: string) => problems.push(`${cleanText(key)}: ${problem}`)
    const [, chainId, address] = KEY.exec(key) ?? []
    if (address === undefined) refuse('expected CHAIN_ID:ADDRESS')
    else if (explainAddress(address) !== null) refuse(`the address ${explainAddress(address)!.detail}`)
    const name = `${chainId}:${address?.toLowerCase()}`
    if (tokens.has(name)) refuse('is listed twice')
    const fields = isObject(token) ? token : {}
    for (const field of Object.keys(fields)) if (!FIELDS.includes(field)) refuse(`unknown field ${cleanText(field)}`)
    const { symbol, name: called = '', logoURI, allowPrivate = false } = fields
    if (typeof symbol !== 'string' || symbol === '') refuse('symbol must be a text')
    if (typeof called !== 'string') refuse('name must be a text')
    if (fields.decimals !== undefined && !Number.isInteger(fields.decimals)) refuse('decimals must be a whole number')
    if (logoURI !== undefined && !isPictureUrl(logoURI, allowsHttp)) refuse('logoURI must be an https address')
    if (typeof allowPrivate !== 'boolean') refuse('allowPrivate must be true or false')
    if (typeof symbol === 'string' && typeof called === 'string')
      tokens.set(name, {
        symbol: cleanText(symbol),
        name: cleanText(called),
        ...(typeof logoURI === 'string' ? { picture: { url: logoURI, allowsPrivate: allowPrivate === true } } : {}),
      })
  }
  if (problems.length > 0)
    throw new Error(`KNOWN_TOKENS_FILE cannot be used:\n${problems.map((line) => `  ${line}`).join('\n')}`)
  return tokens
}

function isPictureUrl(value: unknown, allowsHttp: boolean): boolean {
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (url === null || url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (allowsHttp && url.protocol === 'http:' && LOOPBACK.has(url.hostname))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const lists = slot('tokens that the operator knows', (_chain: Chain): { last: KnownAt | null } => ({ last: null }))
type KnownAt = { of: ListedTokens | undefined; known: KnownTokens }

/** Returns the known tokens of a network: those that the operator listed, and always its native currency. */
export function knownTokensOf({ knownTokens }: Pick<App, 'knownTokens'>, chain: Chain): KnownTokens {
  const remembered = lists.of(chain)
  if (remembered.last === null || remembered.last.of !== knownTokens) {
    const prefix = `${chain.chainId}:`
    const own = [...(knownTokens ?? [])].flatMap(([key, token]) =>
      key.startsWith(prefix) ? [[key.slice(prefix.length) as Hex, token] as const] : [],
    )
    const native = { symbol: chain.symbol, name: chain.coin }
    remembered.last = { of: knownTokens, known: knownOf(new Map(own), native) }
  }
  return remembered.last.known
}
