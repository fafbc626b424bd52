import { checksummed } from './address.ts'
import type { MessageFacts } from './message-facts.ts'

/** A login text, parsed. Source: ERC-4361 */
export type LoginText = {
  scheme: string | null
  domain: string
  address: string
  statement: string | null
  uri: string
  chainId: string
  nonce: string
  issuedAt: string
  expiresAt: string | null
  notBefore: string | null
  requestId: string | null
  resources: readonly string[]
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Maximum milliseconds between `Issued At` and the signer's clock, in both directions. */
const MAX_AGE_MS = 300_000

const DATE = String.raw`\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})`
/** The fields in their order, one per line. The statement may have any visible character, because applications use many languages. */
const LOGIN = new RegExp(
  [
    String.raw`^(?:(?<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?<domain>(?:(?![/?#@\\])[!-~])+) wants you to sign in with your Ethereum account:\n`,
    String.raw`(?<address>0x[0-9a-fA-F]{40})\n\n(?:(?<statement>[^\n\r\p{Cf}\p{Zl}\p{Zp}]+)\n)?\n`,
    String.raw`URI: (?<uri>[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-\[\]_a-z~]+)\nVersion: 1\n`,
    String.raw`Chain ID: (?<chainId>[1-9]\d{0,15})\nNonce: (?<nonce>[A-Za-z0-9]{8,})\nIssued At: (?<issuedAt>${DATE})`,
    String.raw`(?:\nExpiration Time: (?<expiresAt>${DATE}))?(?:\nNot Before: (?<notBefore>${DATE}))?`,
    String.raw`(?:\nRequest ID: (?<requestId>[\w.~!$&'()*+,;=:@%-]*))?(?:\nResources:(?<resources>(?:\n- [!-~]+)*))?$`,
  ].join(''),
  'u',
)

/** Returns whether a text looks like a login, whatever its letter case, white space and invisible characters. */
export const looksLikeLogin = (text: string): boolean =>
  /wants you to sign in with your/i.test(text.replaceAll(/\p{Cf}/gu, '').replaceAll(/\s+/g, ' '))

/** Parses a login text. Returns null if it is none. */
export function readLogin(text: string): LoginText | null {
  const fields = LOGIN.exec(text)?.groups as Record<string, string | undefined> | undefined
  if (fields === undefined) return null
  return {
    scheme: fields.scheme ?? null,
    domain: fields.domain!,
    address: fields.address!,
    statement: fields.statement ?? null,
    uri: fields.uri!,
    chainId: fields.chainId!,
    nonce: fields.nonce!,
    issuedAt: fields.issuedAt!,
    expiresAt: fields.expiresAt ?? null,
    notBefore: fields.notBefore ?? null,
    requestId: fields.requestId ?? null,
    resources: fields.resources?.split('\n- ').slice(1) ?? [],
  }
}

/** Returns whether the URI has a scheme of a registrable origin. */
const isSecure = ({ protocol, hostname }: URL): boolean =>
  protocol === 'https:' || (protocol === 'http:' && LOOPBACK.has(hostname))

/** Returns the hosts that a login is for, each once and in lower case: `domain`, and the host of its URI. */
export function hostsOf({ domain, uri }: LoginText): string[] {
  const hosts = [domain.toLowerCase(), ...(URL.canParse(uri) ? [new URL(uri).host] : [])]
  return [...new Set(hosts.filter((host) => host !== ''))]
}

/**
 * Returns the reason why a login is not signed for the requesting application; null if it can be signed.
 * Source: ERC-4361, verifying a message, and ERC-8019
 */
export function problemOfLogin(login: LoginText, facts: MessageFacts): { isForeign: boolean; problem: string } | null {
  const uri = URL.canParse(login.uri) ? new URL(login.uri) : null
  const known = facts.domains.map((domain) => domain.toLowerCase())
  // An application that registered a loopback host without a port may use any, as for redirects. Source: RFC 8252 §7.3
  for (const host of [login.domain.toLowerCase(), uri?.host ?? '']) {
    const name = host.replace(/:\d{1,5}$/, '')
    if (LOOPBACK.has(name) && known.includes(name)) known.push(host)
  }
  if (!known.includes(login.domain.toLowerCase()) || uri === null || !known.includes(uri.host))
    return { isForeign: true, problem: 'the login is for a domain that is not of this application' }
  const [at, issued] = [facts.at, Date.parse(login.issuedAt)]
  const problems: [isWrong: boolean, problem: string][] = [
    [uri.username !== '' || uri.password !== '', 'the URI has a user name'],
    [!isSecure(uri), 'the URI is not https, nor http on loopback'],
    [login.scheme !== null && `${login.scheme.toLowerCase()}:` !== uri.protocol, 'scheme and URI differ'],
    [login.address !== checksummed(facts.address), 'the login is for another account, or its checksum is missing'],
    [login.chainId !== String(facts.chainId), 'the login is for another network'],
    [!(Math.abs(at - issued) <= MAX_AGE_MS), '`Issued At` differs from the signer’s clock by more than five minutes'],
    [login.expiresAt !== null && !(Date.parse(login.expiresAt) > at), 'the login has expired'],
    [login.notBefore !== null && !(Date.parse(login.notBefore) <= at), 'the login is not valid yet'],
  ]
  const [found] = problems.filter(([isWrong]) => isWrong)
  return found === undefined ? null : { isForeign: false, problem: found[1] }
}
