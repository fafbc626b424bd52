import { randomBytes } from 'node:crypto'
import { networkInterfaces } from 'node:os'
import type { Config, Listen } from '../../config.ts'
import type { Diagnosis } from '../../findings.ts'
import type { ProxyProbe } from '../../http/proxy-probe.ts'
import { VERSION } from '../../version.ts'
import type { Examined } from './patient.ts'
import { finding } from './faults.ts'

const TIMEOUT_MS = 5_000
/** An address that no client has: RFC 5737, TEST-NET-1. */
const FORGED = '192.0.2.77'

type Readiness = { version?: string; checks?: { name: string; ok: boolean; detail?: string }[] }

/** Checks the running server: its own checks, its release, and the client address that it sees behind its proxies. */
export async function checkServer({ config, part, db, get }: Examined): Promise<Diagnosis[]> {
  if (config.NODE_ENV !== 'production') return []
  const { OPS_LISTEN: listen } = config
  if (listen === undefined) return [finding('no_operators_listener', 'there are no metrics and no detailed checks without OPS_LISTEN')] // prettier-ignore
  const answer = await get(`${urlOf(listen)}/readyz`)
  if (!isReadiness(answer)) return [finding('server_down', 'no server responds at OPS_LISTEN')]
  const { version, checks = [] } = answer
  // Database and signer were asked directly, unless they cannot be.
  const failed = checks.filter(({ name, ok }) => !ok && name !== 'signer' && !(name === 'database' && db === null))
  const origin = (part === 'auth' ? config.AUTH_ORIGIN : config.PUBLIC_ORIGIN)!
  return [
    ...(version === VERSION ? [] : [finding('server_version_differs', `the running server is version ${version ?? 'unknown'}, and ${VERSION} is installed`)]), // prettier-ignore
    ...failed.map(({ name, detail }) => finding('server_check_failed', `${name}: ${detail ?? 'failed'}`)),
    ...(await checkProxy(get, { listen, origin, trusted: config.TRUST_PROXY })),
  ]
}

/** Sends a request with a forged X-Forwarded-For through the proxy, and asks the server for the address that it saw. */
async function checkProxy(
  get: Examined['get'],
  { listen, origin, trusted }: { listen: Listen; origin: string; trusted: Config['TRUST_PROXY'] },
): Promise<Diagnosis[]> {
  const probe = randomBytes(16).toString('hex')
  const sent = await get(`${origin}/healthz?probe=${probe}`, { 'x-forwarded-for': FORGED })
  const seen = sent === null ? null : await get(`${urlOf(listen)}/proxy-probe/${probe}`)
  if (!isProbe(seen)) return [finding('origin_unreachable', `the server does not receive requests to ${origin}`)]
  return findings(seen, trusted)
}

// Another program can listen there.
const isReadiness = (answer: unknown): answer is Readiness =>
  isObject(answer) &&
  isTextOrAbsent(answer.version) &&
  (answer.checks === undefined || (Array.isArray(answer.checks) && answer.checks.every(isCheck)))

const isCheck = (one: unknown): boolean =>
  isObject(one) && typeof one.name === 'string' && typeof one.ok === 'boolean' && isTextOrAbsent(one.detail)

const isProbe = (seen: unknown): seen is ProxyProbe =>
  isObject(seen) &&
  typeof seen.client === 'string' &&
  typeof seen.peer === 'string' &&
  (seen.forwardedFor === null || typeof seen.forwardedFor === 'string')

const isTextOrAbsent = (value: unknown): boolean => value === undefined || typeof value === 'string'
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

function findings({ client, peer, forwardedFor }: ProxyProbe, trusted: Config['TRUST_PROXY']): Diagnosis[] {
  const hops = (forwardedFor ?? '').split(',').map((hop) => hop.trim())
  // On the proxy's own machine, this command itself is a trusted address, which a client elsewhere is not.
  const isTrustedItself = typeof trusted === 'object' && hops.length > 1 && isThisMachine(hops[1]!)
  if (client === FORGED && !isTrustedItself)
    return [finding('forged_address_trusted', 'a client can choose its own address in X-Forwarded-For, and so evade rate limits')] // prettier-ignore
  const isProxied = forwardedFor !== null && forwardedFor !== FORGED
  if (isProxied && (trusted === 0 || (client === peer && client !== hops.at(-1))))
    return [finding('proxy_not_trusted', 'the address of the proxy counts as the client, so that all clients share one rate limit')] // prettier-ignore
  return []
}

function isThisMachine(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '')
  const own = Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map((one) => one.address))
  return own.includes(plain)
}

const urlOf = ({ host, port }: Listen): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Returns the JSON of a response of any status but 404; null if there is none. */
export async function getJson(url: string, headers: Record<string, string> = {}): Promise<unknown> {
  try {
    const response = await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT_MS) })
    return response.status === 404 ? null : await response.json()
  } catch {
    return null
  }
}
