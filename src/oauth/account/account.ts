/**
 * oauth/account: account pages, for the signed-in user.
 * Owns: the pages with tabs (overview, sending, receiving, activity, applications, security), pictures of
 *   listed tokens, the data file and deletion.
 * Does not own: balances, transfers and transactions: `src/account/` implements `slices.ts`.
 * Otherwise, only `oauth/oauth.ts` imports this folder.
 */

import type { FastifyInstance } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../../app.ts'
import { forgetUses } from '../../applications/registry.ts'
import { PageError } from '../../texts/page-error.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import { assertChangeable } from '../../users/freeze.ts'
import { forgetPerson } from '../../users/identities.ts'
import { eraseBody, shortBody, showShort } from './body.ts'
import { hidden, leaveFor, openAccountDoor } from './access.ts'
import type { AccountSlices } from './slices.ts'
import { activityPage } from './activity.ts'
import { approvalPages } from '../approvals/approvals.ts'
import { exportPages } from './export.ts'
import { revokeAll } from './allowed.ts'
import { applicationsPage } from './applications.ts'
import type { Federation } from '../federation/federation.ts'
import { ownSignIn, pathAfter } from '../first-party.ts'
import type { PrivateKeys } from '../keys.ts'
import { overviewPage } from './overview.ts'
import { ownDataFile } from './own-data.ts'
import type { ProviderSettings } from '../federation/providers.ts'
import type { Secrets } from '../secrets.ts'
import { receiptPage } from './receipt.ts'
import { openPictures, pictureRoute } from './pictures.ts'
import { receivePage } from './receive.ts'
import { securityPage } from './security.ts'
import { sendPages } from './send.ts'
import { signaturesPage } from './signatures.ts'
import { inTabs } from './tabs.ts'
import { endIn, signOut } from '../sign-out.ts'

type AccountPageParts = {
  provider: Provider
  providers: ProviderSettings[]
  federation: Federation
  secrets: Secrets
  slices: AccountSlices
  keys: PrivateKeys
}

/** Registers the pages of a user about their own account, under /account. They work without JavaScript. */
export function accountPages(
  server: FastifyInstance,
  app: App,
  { provider, providers, federation, secrets, slices, keys }: AccountPageParts,
): void {
  const { db, authOrigin: origin } = app
  const door = openAccountDoor(server, app, { provider, secrets })
  const { arrive, csrfOf, actFresh } = door
  const pictures = openPictures(app)
  const { pictureOf } = pictures
  pictureRoute(server, pictures)
  overviewPage(server, app, { door, slices, pictureOf })
  receivePage(server, app, { door })
  applicationsPage(server, app, { door, secrets })
  securityPage(server, app, { door, providers, federation })
  sendPages(server, app, { door, providers, slices, pictureOf })
  activityPage(server, app, { door, slices, pictureOf })
  receiptPage(server, app, { door, slices, pictureOf })
  ownDataFile(server, app, { door, slices })
  exportPages(server, app, { door, keys })
  signaturesPage(server, app, { door, slices })
  approvalPages(server, app, { door, slices, keys, pictureOf })

  /** GET /account/signed-in: the redirect URI of our own sign-in. Its code is not used: only the session counts. */
  server.get<{ Querystring: { error?: unknown; state?: unknown } }>('/account/signed-in', hidden, (request, reply) => {
    const { error, state } = request.query
    const words = textsOf(request)
    const { notSignedIn, signIn } = words.account
    if (error !== undefined)
      return sendPage(reply, 200, {
        words,
        title: notSignedIn,
        body: shortBody(notSignedIn, null, { href: '/account', text: signIn }),
      })
    return leaveFor(reply, pathAfter(state))
  })

  /** GET /account/erase: what is deleted and what stays. */
  server.get('/account/erase', hidden, async (request, reply) => {
    const visitor = await arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(origin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const body = `${await door.noticeFor(visitor, words)}${eraseBody(words, { csrf: csrfOf(visitor), firstIdentity: visitor.user.userId })}`
    return sendPage(reply, 200, { words, title: words.erase.title, ...inTabs(words, 'security'), body })
  })

  /**
   * POST /account/erase: `sure`. Access ends first, so that nothing is written again. The sign-out is last: after a
   * failure, the user can ask again.
   */
  actFresh('/account/erase', async ({ visitor: { user }, form, request, reply }) => {
    const words = textsOf(request)
    request.backLink = { href: '/account/erase', text: words.account.back, words }
    if (form.sure !== 'yes') throw new PageError('sign_in_refused', ({ refused }) => refused.notSure)
    await assertChangeable(db, user.accountId)
    await revokeAll(app, user)
    await forgetUses(db, user.accountId)
    await forgetPerson(db, user)
    await signOut(db, endIn(app), user.userId)
    return showShort(reply, textsOf(request), 'erased', 'erasedHint')
  })
}
