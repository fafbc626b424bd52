import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { readSignedHead } from '../signer-wire/wire.ts'

/** seconds for which an answer may be kept: a head that is that old says all that it said */
const MAX_AGE_SECONDS = 10

/** The newest signed head and the signer's key, as JSON and, in `note`, as it was signed. `at` is RFC 3339. */
type PublishedHead = { origin: string; key: string; size: number; root: string; at: string; note: string }

/**
 * GET /.well-known/chatelaine-signing-log: where the signer's ledger ends, for anyone who keeps it to compare one day. Public; it
 * says of people only how many records there are. Errors: signer_unavailable, while no head is known.
 */
export function signingLog(server: FastifyInstance, app: Pick<App, 'signer'>): void {
  let key: string | null = null
  let asking: Promise<void> | null = null

  /** However many strangers ask, the signer is asked once at a time, and no more once its key is known. */
  const ask = (): Promise<void> =>
    (asking ??= app.signer
      .health()
      .then(({ identity }) => {
        key = identity
      })
      .finally(() => (asking = null)))

  server.get('/.well-known/chatelaine-signing-log', { schema: { hide: true } }, async (_request, reply) => {
    if (!isKeyOf(key, app.signer.head())) await ask()
    const published = toPublished(key, app.signer.head())
    return reply
      .header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`)
      .header('access-control-allow-origin', '*')
      .send(published)
  })
}

const isKeyOf = (key: string | null, note: string | null): boolean =>
  key !== null && note !== null && key.startsWith(`${note.slice(0, note.indexOf('\n'))}+`)

function toPublished(key: string | null, note: string | null): PublishedHead {
  const head = note === null ? null : readSignedHead(note)
  if (key === null || note === null || head === null || !isKeyOf(key, note))
    throw new AppError('signer_unavailable', 'The signer has not yet reported the end of its log. Retry.')
  const { origin, size, root, at } = head
  return { origin, key, size, root: root.toString('base64'), at: new Date(at).toISOString(), note }
}
