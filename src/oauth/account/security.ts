import type { FastifyInstance } from 'fastify'
import type { App } from '../../app.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import { PageError } from '../../texts/page-error.ts'
import { userWire } from '../../users/find.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { listIdentities, unlinkIdentity } from '../../users/identities.ts'
import { browserOf } from '../browser.ts'
import type { Federation } from '../federation/federation.ts'
import type { ProviderSettings } from '../federation/providers.ts'
import { ownSignIn } from '../first-party.ts'
import { linkingOf } from '../linking.ts'
import { endSession, endSessions, listSessions } from '../sessions.ts'
import { endIdentity, endIn, signOut } from '../sign-out.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { doneHtml, showShort } from './body.ts'
import { securityBody } from './security-body.ts'
import { inTabs } from './tabs.ts'

type SecurityContext = { door: AccountDoor; providers: ProviderSettings[]; federation: Federation }

/** Registers the page of the sign-ins of an account, and the forms that change them. */
export function securityPage(
  server: FastifyInstance,
  app: App,
  { door, providers, federation }: SecurityContext,
): void {
  const { db, authOrigin: origin } = app

  /** GET /account/security */
  server.get<{ Querystring: Record<string, unknown> }>('/account/security', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(origin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const { accountId, userId, provider } = visitor.user
    const [identities, sessions] = await Promise.all([
      listIdentities(db, { accountId, userId }),
      listSessions(db, userId),
    ])
    const { username, imageSrc } = userWire(visitor.user)
    const page = securityBody({
      words,
      csrf: door.csrfOf(visitor),
      username,
      provider,
      imageSrc,
      identities,
      providers,
      sessions,
      session: visitor.sessionUid,
      canExport: app.config.KEY_EXPORT === 'on',
    })
    const { securityTitle: title } = words.wallet
    const body = `${await door.noticeFor(visitor, words)}${doneHtml(words, request.query)}${page}`
    return sendPage(reply, 200, { words, title, ...inTabs(words, 'security'), hasScript: origin, body })
  })

  /** POST /account/identities/remove: `identity`, a user id. */
  door.actFresh(
    '/account/identities/remove',
    async ({ visitor: { user, sessionUid, cameBy }, form, request, reply }) => {
      const identity = form.identity ?? ''
      await assertChangeable(db, user.accountId)
      if (!(await unlinkIdentity(db, user, identity))) return 'kept'
      const isOwn = cameBy?.identity === identity
      await endIdentity(app, user, { identity, except: isOwn ? null : sessionUid })
      return isOwn ? showShort(reply, textsOf(request), 'signedOut', 'unlinkedHere') : 'unlinked'
    },
  )

  /** POST /account/identities/add: `provider`; redirects to it. login.ts handles the callback. */
  door.actFresh('/account/identities/add', async ({ visitor, form, request, reply }) => {
    await assertChangeable(db, visitor.user.accountId)
    const chosen = providers.find(({ name }) => name === form.provider)
    if (chosen === undefined) throw new PageError('unknown_provider', ({ refused }) => refused.noProvider)
    const { browser, cookie } = browserOf(request, origin)
    const url = await federation.visit(chosen, { interactionUid: linkingOf(visitor, chosen), browser, request: null })
    reply.header('set-cookie', cookie)
    return url
  })

  /** POST /account/sessions/end: `uid`, of this browser or another. */
  door.act('/account/sessions/end', async ({ visitor: { user, sessionUid }, form, request, reply }) => {
    const uid = form.uid ?? ''
    await endSession(db, { userId: user.userId, uid })
    return uid === sessionUid ? showShort(reply, textsOf(request), 'signedOut', 'signedOutHint') : 'signed_out'
  })

  /** POST /account/sessions/end-others */
  door.act('/account/sessions/end-others', async ({ visitor: { user, sessionUid } }) => {
    await endSessions(db, { userId: user.userId, except: sessionUid })
    return 'signed_out'
  })

  /** POST /account/sessions/end-everywhere: signs out this browser, the others, and every application. */
  door.act('/account/sessions/end-everywhere', async ({ visitor: { user }, request, reply }) => {
    await signOut(db, endIn(app), user.userId)
    return showShort(reply, textsOf(request), 'signedOut', 'signedOutEverywhere')
  })
}
