/**
 * oauth/account: account pages, for the signed-in user.
 * Owns: the overview, activity, sending, revoking access, ways to sign in, sessions, the data file and deletion.
 * Does not own: balances, transfers and transactions: `src/account/` implements `slices.ts`.
 * Otherwise, only `oauth/oauth.ts` imports this folder.
 */

import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../../app.ts'
import { forgetUses } from '../../applications/registry.ts'
import { countWaiting } from '../../approvals/decide.ts'
import type { Texts } from '../../texts/en.ts'
import { PageError } from '../../texts/page-error.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import { userWire, type ProvenUser } from '../../users/find.ts'
import { readExported } from '../../users/exported.ts'
import { assertChangeable, readFreezable } from '../../users/freeze.ts'
import { forgetPerson, listIdentities, unlinkIdentity } from '../../users/identities.ts'
import { accountBody, eraseBody, shortBody, type OnNetwork } from './body.ts'
import { hidden, leaveFor, openAccountDoor } from './access.ts'
import type { AccountSlices, Listed, ShownTransfer } from './slices.ts'
import { activityPage } from './activity.ts'
import { approvalPages } from '../approvals/approvals.ts'
import { exportPages } from './export.ts'
import { listAllowed, revokeAll, revokeAllowed } from './allowed.ts'
import { browserOf } from '../browser.ts'
import type { Federation } from '../federation/federation.ts'
import { ownSignIn, pathAfter } from '../first-party.ts'
import type { PrivateKeys } from '../keys.ts'
import { linkingOf } from '../linking.ts'
import { ownDataFile } from './own-data.ts'
import type { ProviderSettings } from '../federation/providers.ts'
import type { Secrets } from '../secrets.ts'
import { sendPages } from './send.ts'
import { signaturesPage } from './signatures.ts'
import { endSession, endSessions, listSessions } from '../sessions.ts'
import { chainName } from '../page-context.ts'
import { endIdentity, endIn, signOut } from '../sign-out.ts'

type AccountPageParts = {
  provider: Provider
  providers: ProviderSettings[]
  federation: Federation
  secrets: Secrets
  slices: AccountSlices
  keys: PrivateKeys
}

/** Rows of each list on the overview. All rows are on `/account/activity`. */
const FEW = 5

/** Registers the pages of a user about their own account, under /account. They work without JavaScript. */
export function accountPages(
  server: FastifyInstance,
  app: App,
  { provider, providers, federation, secrets, slices, keys }: AccountPageParts,
): void {
  const { db, authOrigin: origin } = app
  const door = openAccountDoor(server, app, { provider, secrets })
  const { arrive, csrfOf, act, actFresh } = door
  sendPages(server, app, { door, providers, slices })
  activityPage(server, app, { door, slices })
  ownDataFile(server, app, { door, slices })
  exportPages(server, app, { door, keys })
  signaturesPage(server, app, { door, slices })
  approvalPages(server, app, { door, slices, keys })

  /** GET /account: the overview; without a session, it redirects to a sign-in. */
  server.get<{ Querystring: { done?: unknown } }>(
    '/account',
    { ...hidden, config: { admission: 'read' } },
    async (request, reply) => {
      const visitor = await arrive(request, reply)
      if (visitor === null) return leaveFor(reply, ownSignIn(origin, { comesBackTo: 'first' }))
      const { user } = visitor
      const { accountId, userId } = user
      const words = textsOf(request)
      const [networks, allowed, identities, sessions, { frozenAt }, notice, exportedAt, waiting] = await Promise.all([
        Promise.all([...app.networks.keys()].map((chainId) => lookAt(words, user, chainId))),
        listAllowed(app, { accountId, userId }),
        listIdentities(db, { accountId, userId }),
        listSessions(db, userId),
        readFreezable(db, userId),
        door.noticeFor(visitor, words),
        readExported(db, accountId),
        countWaiting(app, accountId),
      ])
      const { username, address, imageSrc } = userWire(user)
      const { done } = request.query
      const body = accountBody({
        words,
        csrf: csrfOf(visitor),
        username,
        provider: user.provider,
        imageSrc,
        address,
        isFrozen: frozenAt !== null,
        networks,
        applications: allowed.map((one) => ({ ...one, network: chainName(app, words, one.chainId) })),
        identities,
        providers,
        sessions,
        session: visitor.sessionUid,
        notice,
        exportedAt,
        waiting,
        canExport: app.config.KEY_EXPORT === 'on',
        done: typeof done === 'string' && Object.hasOwn(words.done, done) ? words.done[done]! : null,
      })
      return sendPage(reply, 200, { words, title: words.account.title, layout: 'wide', hasScript: origin, body })
    },
  )

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

  /** POST /account/applications/revoke: `clientId`. */
  act('/account/applications/revoke', async ({ visitor: { user }, form }) => {
    await revokeAllowed(app, user, form.clientId ?? '')
    return 'revoked'
  })

  /** POST /account/identities/remove: `identity`, a user id. */
  actFresh('/account/identities/remove', async ({ visitor: { user, sessionUid, cameBy }, form, request, reply }) => {
    const identity = form.identity ?? ''
    await assertChangeable(db, user.accountId)
    if (!(await unlinkIdentity(db, user, identity))) return 'kept'
    const isOwn = cameBy?.identity === identity
    await endIdentity(app, user, { identity, except: isOwn ? null : sessionUid })
    return isOwn ? showShort(reply, textsOf(request), 'signedOut', 'unlinkedHere') : 'unlinked'
  })

  /** POST /account/identities/add: `provider`; redirects to it. login.ts handles the callback. */
  actFresh('/account/identities/add', async ({ visitor, form, request, reply }) => {
    await assertChangeable(db, visitor.user.accountId)
    const chosen = providers.find(({ name }) => name === form.provider)
    if (chosen === undefined) throw new PageError('unknown_provider', ({ refused }) => refused.noProvider)
    const { browser, cookie } = browserOf(request, origin)
    const url = await federation.visit(chosen, { interactionUid: linkingOf(visitor, chosen), browser, request: null })
    reply.header('set-cookie', cookie)
    return url
  })

  /** POST /account/sessions/end: `uid`, of this browser or another. */
  act('/account/sessions/end', async ({ visitor: { user, sessionUid }, form, request, reply }) => {
    const uid = form.uid ?? ''
    await endSession(db, { userId: user.userId, uid })
    return uid === sessionUid ? showShort(reply, textsOf(request), 'signedOut', 'signedOutHint') : 'signed_out'
  })

  /** POST /account/sessions/end-others */
  act('/account/sessions/end-others', async ({ visitor: { user, sessionUid } }) => {
    await endSessions(db, { userId: user.userId, except: sessionUid })
    return 'signed_out'
  })

  /** POST /account/sessions/end-everywhere: signs out this browser, the others, and every application. */
  act('/account/sessions/end-everywhere', async ({ visitor: { user }, request, reply }) => {
    await signOut(db, endIn(app), user.userId)
    return showShort(reply, textsOf(request), 'signedOut', 'signedOutEverywhere')
  })

  /** GET /account/erase: what is deleted and what stays. */
  server.get('/account/erase', hidden, async (request, reply) => {
    const visitor = await arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(origin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const body = `${await door.noticeFor(visitor, words)}${eraseBody(words, { csrf: csrfOf(visitor), firstIdentity: visitor.user.userId })}`
    return sendPage(reply, 200, { words, title: words.erase.title, body })
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

  /** Reads an account on one network. A read that fails is shown as unavailable, and logged. */
  async function lookAt(words: Texts, user: ProvenUser, chainId: number): Promise<OnNetwork> {
    const failed = (error: unknown): null => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return null
    }
    const page = { limit: FEW }
    const [balances, collectibles, transfers, coins, sent] = await Promise.all([
      slices.readBalances(user, chainId).catch(failed),
      slices.readCollectibles(user, chainId).catch(failed),
      slices.readTransfers(user, chainId, { ...page, direction: 'all' }).catch(failed),
      slices.readNativeTransfers(user, chainId, { ...page, direction: 'all' }).catch(failed),
      slices.readSent(user, chainId, { ...page, clientId: null }).catch(failed),
    ])
    return {
      chainId,
      network: chainName(app, words, chainId),
      balances,
      collectibles: collectibles ?? [],
      transfers: newestOf(transfers, coins),
      coverage: coins?.coverage ?? null,
      sent: sent?.entries ?? [],
      canSend: slices.sending !== null,
    }
  }
}

/** Merges the newest transfers of tokens and of native currency; null if nothing could be read. */
function newestOf(...lists: (Listed<ShownTransfer> | null)[]): ShownTransfer[] | null {
  if (lists.every((list) => list === null)) return null
  const all = lists.flatMap((list) => list?.entries ?? [])
  return all.toSorted((one, other) => other.at.getTime() - one.at.getTime()).slice(0, FEW)
}

type Short = 'signedOut' | 'unlinkedHere' | 'signedOutHint' | 'signedOutEverywhere' | 'erased' | 'erasedHint'

const showShort = (reply: FastifyReply, words: Texts, title: Short, hint: Short): FastifyReply =>
  sendPage(reply, 200, {
    words,
    title: words.account[title],
    body: shortBody(words.account[title], words.account[hint], null),
  })
