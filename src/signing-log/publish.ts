import type { FastifyInstance } from 'fastify'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { readSignedHead } from '../signer-wire/wire.ts'

/** seconds that an answer may be cached; an older head is still valid */
const MAX_AGE_SECONDS = 10

/** The newest signed head and the signer's key, as JSON and, in `note`, as signed. `at` is RFC 3339. */
type PublishedHead = { origin: string; key: string; size: number; root: string; at: string; note: string }

/**
 * GET /.well-known/chatelaine-signing-log: publishes the end of the signer's ledger, so that anyone can retain it and compare it
 * later. It is public and reveals only the number of records.
 * Errors: signer_unavailable, while no head is known.
 */
export function signingLog(server: FastifyInstance, app: Pick<App, 'signer'>): void {
  let key: string | null = null
  let asking: Promise<void> | null = null

  /** Asks the signer for its key, one request at a time and not again once it is known, however many clients ask. */
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
