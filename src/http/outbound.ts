import { lookup as resolve, type LookupAddress } from 'node:dns'
import http from 'node:http'
import https from 'node:https'
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net'

/** Maximum duration of one request, in milliseconds. */
const PATIENCE_MS = 5_000
/** Maximum response if none is given, in bytes: discovery documents, keys and profiles have a few kilobytes. */
const MAX_BYTES = 1_048_576
/** Maximum connections to one place. */
const MAX_SOCKETS = 16

/**
 * Sends one request to a place that others name, with the arguments of `fetch` that client libraries use. It follows no
 * redirects.
 */
export type Outbound = (
  url: string,
  options?: {
    method?: string
    headers?: ConstructorParameters<typeof Headers>[0]
    body?: unknown
    signal?: AbortSignal | null | undefined
  },
) => Promise<Response>

type FetchLimits = {
  /** the provider may be in the operator's private network; still only https */
  allowsPrivate: boolean
  /** the provider is on this machine, or is a mock in a test: http is allowed too */
  isDevelopment: boolean
  /** hosts that may have any address, and may be visited by http: names or IP addresses, as in a URL */
  privateHosts?: ReadonlySet<string>
  patienceMs?: number
  /** maximum response, in bytes; a larger one is an error */
  maxBytes?: number
  maxSockets?: number
  /** the response ends after this many bytes, and the rest is not read; absent: a large response is an error */
  cutAfterBytes?: number
  /** replaces the resolver in tests */
  lookup?: (
    host: string,
    options: { all: true },
    done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
  ) => void
}

/**
 * Opens the one way out to identity providers, hosts of listed pictures, and webhooks. A discovery document names further
 * addresses (token, userinfo, keys), and anyone can name the address of a webhook. So each request is checked: https, and a
 * host all of whose addresses are public. The connection goes to an address that
 * was checked, not to what the name resolves to a moment later.
 * @throws TypeError  `fetch failed`, as fetch does, with what happened as its cause
 */
export function openOutbound({
  allowsPrivate,
  isDevelopment,
  privateHosts = new Set(),
  patienceMs = PATIENCE_MS,
  maxBytes = MAX_BYTES,
  maxSockets = MAX_SOCKETS,
  cutAfterBytes,
  lookup = resolve,
}: FetchLimits): Outbound {
  const isAnyAddress = (host: string) => allowsPrivate || isDevelopment || privateHosts.has(host)
  const judged: LookupFunction = (host, options, done) =>
    lookup(host, { ...options, all: true }, (error, addresses) => {
      const first = addresses?.[0]
      if (error !== null || first === undefined) return done(error ?? new Error('the host has no address'), '')
      if (!isAnyAddress(host) && !addresses.every(({ address }) => isPublicAddress(address)))
        return done(new Error('the host has an address that is not public'), '')
      return options.all ? done(null, addresses) : done(null, first.address, first.family)
    })
  const keep = { keepAlive: true, lookup: judged, maxSockets }
  const agents = { 'https:': new https.Agent(keep), 'http:': new http.Agent(keep) }

  return async (address, { method = 'GET', headers, body, signal } = {}) => {
    try {
      const url = new URL(address)
      const { protocol, hostname } = url
      if (protocol !== 'https:' && !(protocol === 'http:' && (isDevelopment || privateHosts.has(hostname))))
        throw new Error('the address is not https')
      // An IP address is never resolved, so check it here.
      const host = hostname.replace(/^\[|\]$/g, '')
      if (isIP(host) !== 0 && !isAnyAddress(hostname) && !isPublicAddress(host))
        throw new Error('the address is not public')
      const patience = AbortSignal.timeout(patienceMs)
      return await send(url, {
        method,
        headers: { 'user-agent': 'chatelaine', ...Object.fromEntries(new Headers(headers)) },
        agent: agents[protocol],
        maxBytes,
        body: body instanceof URLSearchParams || typeof body === 'string' ? String(body) : null,
        signal: signal ? AbortSignal.any([signal, patience]) : patience,
        cutAfterBytes,
      })
    } catch (cause) {
      throw new TypeError('fetch failed', { cause })
    }
  }
}

type SentRequest = http.RequestOptions & {
  body: string | null
  signal: AbortSignal
  maxBytes: number
  cutAfterBytes: number | undefined
}

function send(url: URL, sent: SentRequest): Promise<Response> {
  const { body, maxBytes, cutAfterBytes, ...options } = sent
  const { promise, resolve: answered, reject } = Promise.withResolvers<Response>()
  const request = (url.protocol === 'https:' ? https : http).request(url, options)
  request.on('error', (error: NodeJS.ErrnoException) =>
    // The server closed a connection that was open from an earlier request, at the same moment.
    request.reusedSocket && error.code === 'ECONNRESET' ? send(url, sent).then(answered, reject) : reject(error),
  )
  request.on('response', (answer) => {
    const chunks: Buffer[] = []
    let size = 0
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (cutAfterBytes === undefined && size > maxBytes)
        return void request.destroy(new Error('the answer is too large'))
      chunks.push(chunk)
      if (cutAfterBytes === undefined || size <= cutAfterBytes) return
      end()
      request.destroy()
    })
    answer.on('error', reject)
    answer.on('end', end)
    function end(): void {
      const headers = new Headers()
      for (const [name, values] of Object.entries(answer.headersDistinct))
        for (const value of values ?? []) headers.append(name, value)
      const status = answer.statusCode!
      const isBodiless = status === 204 || status === 205 || status === 304
      const bytes = Buffer.concat(chunks).subarray(0, cutAfterBytes ?? maxBytes)
      answered(new Response(isBodiless ? null : bytes, { status, headers }))
    }
  })
  request.end(body ?? undefined)
  return promise
}

/** Ranges outside the public internet: private, loopback, link-local, carrier, documentation, cloud metadata. */
const blocked = new BlockList()
for (const range of [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  // Teredo and other protocol assignments, documentation, 6to4: these include IPv4 addresses, or nothing real.
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
])
  block(blocked, range)
/** The only part of IPv6 on the internet: mapped, translated, local and link-local addresses are outside. */
const globalUnicast = new BlockList()
block(globalUnicast, '2000::/3')

function block(list: BlockList, range: string): void {
  const [net, bits] = range.split('/') as [string, string]
  list.addSubnet(net, Number(bits), isIPv4(net) ? 'ipv4' : 'ipv6')
}

/** Returns whether an address is on the public internet. Source: IANA special-purpose address registries (RFC 6890) */
export const isPublicAddress = (address: string): boolean =>
  isIPv4(address)
    ? !blocked.check(address, 'ipv4')
    : globalUnicast.check(address, 'ipv6') && !blocked.check(address, 'ipv6')
