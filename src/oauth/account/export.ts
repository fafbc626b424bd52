import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import type { App } from '../../app.ts'
import { AppError, describeError } from '../../errors.ts'
import { asset } from '../../http/asset.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { KeyExport } from '../../signer-wire/wire.ts'
import { settleExported, takeKey } from '../../users/exported.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { exportToken } from '../export-token.ts'
import { ownSignIn } from '../first-party.ts'
import type { PrivateKeys } from '../keys.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { exportBody } from './export-body.ts'
import { inTabs } from './tabs.ts'

/** Maximum age of the sign-in for a key export, in seconds; the signer checks the same. */
const FRESH_SECONDS = 300

/** An uncompressed point of P-256 in base64url. */
const PUBLIC_KEY = /^[A-Za-z0-9_-]{87}$/

/**
 * Registers the page where users request, cancel and take the export of their key. The signer seals the key to a key
 * pair of the browser, which opens and encrypts it. This program cannot open what it passes on.
 */
export function exportPages(
  server: FastifyInstance,
  app: App,
  { door, keys }: { door: AccountDoor; keys: PrivateKeys },
): void {
  server.get(SCRIPT.route, hidden, (_request, reply) =>
    reply
      .header('content-type', SCRIPT.type)
      .header('cache-control', 'public, max-age=31536000, immutable')
      .header('x-content-type-options', 'nosniff')
      .send(SCRIPT.content),
  )

  /** GET /account/export: shows the state of the export and what the user can do. */
  server.get('/account/export', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const { accountId, userId, address } = visitor.user
    const [words, state] = [textsOf(request), await app.signer.keyExport({ userId })]
    await settleExported(app.db, accountId, state)
    const isFresh = door.isFresh(visitor, FRESH_SECONDS)
    const csrf = door.csrfOf(visitor)
    const body = exportBody(words, {
      state,
      isFresh,
      csrf,
      userId,
      address,
      isOffered: isOffered(state),
      signInAgain: ownSignIn(app.authOrigin, { comesBackTo: 'export' }),
    })
    const script = { path: SCRIPT.path, route: SCRIPT.route, connectsTo: '/account/export/take' }
    return sendPage(reply, 200, {
      words,
      title: words.exporting.title,
      ...inTabs(words, 'security'),
      hasScript: app.authOrigin,
      script,
      body,
    })
  })

  /** POST /account/export/ask: begins the delay. */
  door.actFresh(
    '/account/export/ask',
    async ({ visitor }) => {
      await assertChangeable(app.db, visitor.user.accountId)
      assertOffered()
      const asked = await app.signer.askKey({ token: await exportToken(app, keys, visitor, { purpose: 'ask' }) })
      app.telemetry.log.warn('key_export_requested', { userId: visitor.user.userId, id: asked.id })
      return here()
    },
    'export',
    FRESH_SECONDS,
  )

  /** POST /account/export/cancel: needs no recent sign-in, because it only forbids. */
  door.act('/account/export/cancel', async ({ visitor: { user } }) => {
    await app.signer.cancelKey({ userId: user.userId, by: 'person' })
    app.telemetry.log.warn('key_export_cancelled', { userId: user.userId })
    return here()
  })

  /**
   * POST /account/export/take: `recipient`, from the script of the page. Responds with JSON: the sealed key, or `code`.
   */
  door.actFresh(
    '/account/export/take',
    async ({ visitor, form, reply }) => {
      const { accountId, userId } = visitor.user
      const { recipient = '' } = form
      void reply.header('cache-control', 'no-store')
      try {
        assertOffered()
        const { id } = await app.signer.keyExport({ userId })
        const request = id ?? (form.request ?? '').slice(0, 64)
        if (!PUBLIC_KEY.test(recipient) || request === '')
          throw new AppError(
            'export_not_ready',
            'No export of this key was requested. Nothing was exported. Request the export first.',
          )
        await assertChangeable(app.db, accountId)
        const token = await exportToken(app, keys, visitor, { purpose: 'take', request, recipient })
        const sealed = await takeKey(app, { accountId, userId, token })
        app.telemetry.log.warn('key_exported', { userId, id: request })
        return await reply.send(sealed)
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        return reply.code(describeError(error.code).status).send({ code: error.code })
      }
    },
    'export',
    FRESH_SECONDS,
  )

  const here = (): URL => new URL('/account/export', app.authOrigin)
  const isOffered = ({ delaySeconds }: KeyExport): boolean => app.config.KEY_EXPORT === 'on' && delaySeconds !== null

  function assertOffered(): void {
    if (app.config.KEY_EXPORT !== 'on')
      throw new AppError(
        'export_disabled',
        'The operator has not enabled key export. Nothing was exported. Ask the operator to enable it.',
      )
  }
}

const SCRIPT = asset(
  '/assets/export.js',
  'text/javascript; charset=utf-8',
  readFileSync(new URL('export.js', import.meta.url), 'utf8'),
)
