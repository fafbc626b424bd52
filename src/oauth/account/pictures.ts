import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { App, PictureSource } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { pictureType } from '../../http/picture-type.ts'
import { openOutbound, type Outbound } from '../../http/outbound.ts'
import { hidden } from './access.ts'

/** Maximum picture, in bytes. Pictures are never decoded or resized here. */
const MAX_BYTES = 262_144
/** Maximum of all pictures in the memory of a process, in bytes. */
const MAX_HELD_BYTES = 16_777_216
/** Maximum duration of one request to a host, in milliseconds. */
const PATIENCE_MS = 5_000
/** Age after which a picture is fetched again. Until then and meanwhile, the held one is shown. */
const FRESH_MS = 86_400_000
/** Age at which a picture that could not be fetched again is dropped. */
const MAX_AGE_MS = 7 * FRESH_MS
/** Time from a failure to the next request. */
const RETRY_MS = 600_000
/** Number of pictures that are fetched at the start: as many as fit into the memory at their maximum size. */
const MAX_FETCHED_FIRST = MAX_HELD_BYTES / MAX_BYTES

type Picture = { type: string; content: Buffer; version: string }
/** `picture`: null if it was never fetched; shown until `until`. `nextAt`: time of the next request to its host. */
type HeldPicture = { picture: Picture | null; until: number; nextAt: number }

/** Returns the path of a token's picture; null if it has none here and now. Never waits. @param token  null: native */
export type PictureOf = (chainId: number, token: string | null) => string | null

type TokenPictures = {
  pictureOf: PictureOf
  /** Returns a held picture by chain id and lower-case address, `1:0x…`. Never waits. */
  find: (name: string) => Picture | null
  close: () => void
}

/**
 * Opens the pictures of the operator's list, in the memory of this process. A page shows a picture that is held, and
 * otherwise letters, and has it fetched in the background.
 */
export function openPictures({
  knownTokens,
  clock,
  telemetry,
}: Pick<App, 'knownTokens' | 'clock' | 'telemetry'>): TokenPictures {
  const held = new Map<string, HeldPicture>()
  const underway = new Set<string>()
  const lines = new Map<string, Promise<void>>()
  const closing = new AbortController()
  const out = openWays()
  let heldBytes = 0

  const sourceOf = (name: string): PictureSource | undefined => knownTokens?.get(name)?.picture
  const listed = [...(knownTokens ?? [])].filter(([, { picture }]) => picture !== undefined)
  for (const [name] of listed.slice(0, MAX_FETCHED_FIRST)) void look(name)
  return { pictureOf, find: look, close: () => closing.abort() }

  function pictureOf(chainId: number, token: string | null): string | null {
    if (token === null || token === undefined) return null
    const address = token.toLowerCase()
    const picture = look(`${chainId}:${address}`)
    return picture === null ? null : `/assets/tokens/${chainId}/${address}?v=${picture.version}`
  }

  /** Returns the held picture of a listed token, and has it fetched if it is time. */
  function look(name: string): Picture | null {
    const source = sourceOf(name)
    if (source === undefined) return null
    const one = held.get(name)
    const now = clock.wall()
    if ((one === undefined || now >= one.nextAt) && !underway.has(name)) fetchInLine(name, source)
    if (one === undefined || one.picture === null || now >= one.until) return null
    // Moved to the end: the picture that was not shown for longest is dropped first.
    held.delete(name)
    held.set(name, one)
    return one.picture
  }

  /** Fetches the pictures of one host one after another, so that a slow host delays only its own. */
  function fetchInLine(name: string, source: PictureSource): void {
    const { host } = new URL(source.url)
    const work = async () => {
      if (!closing.signal.aborted) await renew(name, source, host)
      underway.delete(name)
      if (lines.get(host) === mine) lines.delete(host)
    }
    const mine: Promise<void> = (lines.get(host) ?? Promise.resolve()).then(work)
    lines.set(host, mine)
    underway.add(name)
  }

  async function renew(name: string, source: PictureSource, host: string): Promise<void> {
    try {
      const picture = await fetchPicture(out(source), source.url, closing.signal)
      const now = clock.wall()
      hold(name, { picture, until: now + MAX_AGE_MS, nextAt: now + FRESH_MS })
    } catch (error) {
      const { picture = null, until = 0 } = held.get(name) ?? {}
      hold(name, { picture, until, nextAt: clock.wall() + RETRY_MS })
      if (!closing.signal.aborted) telemetry.log.warn('token_picture_unavailable', { token: name, host }, error)
    }
  }

  function hold(name: string, one: HeldPicture): void {
    drop(name)
    held.set(name, one)
    heldBytes += sizeOf(one)
    for (const oldest of held.keys()) {
      if (heldBytes <= MAX_HELD_BYTES) break
      if (sizeOf(held.get(oldest)!) > 0) drop(oldest)
    }
  }

  function drop(name: string): void {
    const one = held.get(name)
    if (one === undefined) return
    held.delete(name)
    heldBytes -= sizeOf(one)
  }
}

const sizeOf = ({ picture }: HeldPicture): number => picture?.content.length ?? 0

/** Returns the way out to a host: to public addresses, or where the operator allows it, to private ones. */
function openWays(): (source: PictureSource) => Outbound {
  const limits = { patienceMs: PATIENCE_MS, maxBytes: MAX_BYTES }
  const toPublic = openOutbound({ ...limits, allowsPrivate: false, isDevelopment: false })
  const toPrivate = openOutbound({ ...limits, allowsPrivate: true, isDevelopment: false })
  const toThisMachine = openOutbound({ ...limits, allowsPrivate: false, isDevelopment: true })
  // The list has no http address in production.
  return ({ url, allowsPrivate }) => (url.startsWith('http:') ? toThisMachine : allowsPrivate ? toPrivate : toPublic)
}

/** @throws TypeError as `fetch` does, or Error if the response is not a picture */
async function fetchPicture(out: Outbound, url: string, signal: AbortSignal): Promise<Picture> {
  const response = await out(url, { headers: { accept: 'image/png, image/jpeg, image/webp, image/gif' }, signal })
  if (response.status !== 200) throw new Error(`the host responded with ${response.status}`)
  const content = Buffer.from(await response.arrayBuffer())
  const type = pictureType(content)
  if (type === null) throw new Error('the response is not a PNG, JPEG, WebP or GIF')
  return { type, content, version: createHash('sha256').update(content).digest('base64url').slice(0, 12) }
}

/**
 * Registers GET /assets/tokens/:chainId/:address: the picture of a listed token, from our own origin. Needs no session,
 * because the list is the same for everyone. It responds at once. If only another replica holds the picture, one page
 * view has a blank in its place. Errors: not_found.
 */
export function pictureRoute(server: FastifyInstance, { find, close }: TokenPictures): void {
  server.addHook('onClose', async () => close())
  server.get<{ Params: { chainId: string; address: string } }>(
    '/assets/tokens/:chainId/:address',
    hidden,
    async ({ params }, reply) => {
      const picture = find(`${params.chainId}:${params.address}`)
      if (picture === null) throw new AppError('not_found', 'This token has no picture here.')
      return reply
        .header('content-type', picture.type)
        .header('cache-control', 'public, max-age=86400')
        .header('x-content-type-options', 'nosniff')
        .header('content-security-policy', "default-src 'none'; sandbox")
        .header('cross-origin-resource-policy', 'same-origin')
        .send(picture.content)
    },
  )
}
