import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../app.ts'
import { forgetUses } from '../applications/registry.ts'
import { AppError } from '../errors.ts'
import { openLimit, spend } from '../http/limits.ts'
import { sendPage } from '../http/page.ts'
import type { Hex } from '../ids.ts'
import { userWire, type User } from '../users/find.ts'
import { assertChangeable } from '../users/freeze.ts'
import { forgetPerson, listIdentities, unlinkIdentity } from '../users/identities.ts'
import {
  accountBody,
  eraseBody,
  shortBody,
  type Holding,
  type Movement,
  type OnNetwork,
  type Sent,
} from './account-body.ts'
import { listAllowed, revokeAll, revokeAllowed } from './allowed.ts'
import { browserOf } from './browser.ts'
import type { Federation } from './federation.ts'
import { ownSignIn } from './first-party.ts'
import { formOf } from './interactions.ts'
import { linkingOf } from './linking.ts'
import type { ProviderSettings } from './providers.ts'
import type { Secrets } from './secrets.ts'
import { endSession, endSessions, listSessions, readVisitor, type Visitor } from './sessions.ts'
import { chainName, wayBack } from './steps.ts'
import { endIdentity, endIn, signOut } from './sign-out.ts'
import { texts } from './texts.ts'

export type AccountOwner = { accountId: string; userId: string; address: Hex }

/** What other slices know of an account: passed in, because this one may not import them. */
export type AccountReads = {
  readHoldings(owner: AccountOwner, chainId: number): Promise<Holding[]>
  readMovements(owner: AccountOwner, chainId: number): Promise<Movement[]>
  readSent(owner: AccountOwner, chainId: number): Promise<Sent[]>
}

type Parts = {
  provider: Provider
  providers: ProviderSettings[]
  federation: Federation
  secrets: Secrets
  reads: AccountReads
}

/** Adding an identity and deleting need a sign-in this fresh: an unlocked screen alone must not be enough, seconds. */
const FRESH_SECONDS = 900
/** Views of one account per second and at once: each asks the nodes. */
const PER_SECOND = 2
const BURST = 30

type Action = {
  visitor: Visitor
  form: Record<string, string | undefined>
  request: FastifyRequest
  reply: FastifyReply
}

/** The pages of a person about their own account, under /account. They work without JavaScript. */
export function accountPages(
  server: FastifyInstance,
  app: App,
  { provider, providers, federation, secrets, reads }: Parts,
): void {
  const { db, origin, config } = app
  const limit = openLimit({ name: 'account', perSecond: PER_SECOND, burst: BURST, now: app.now })

  /** GET /account: everything; a sign-in first when there is none. */
  server.get<{ Querystring: { done?: unknown } }>('/account', hidden, async (request, reply) => {
    const visitor = await arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(origin, { again: false }))
    const { user } = visitor
    const { accountId, userId } = user
    const [networks, allowed, identities, sessions] = await Promise.all([
      Promise.all([...app.chains.keys()].map((chainId) => lookAt(user, chainId))),
      listAllowed(app, { accountId, userId }),
      listIdentities(db, { accountId, userId }),
      listSessions(db, userId),
    ])
    const { username, address, imageSrc } = userWire(user)
    const { done } = request.query
    const body = accountBody({
      csrf: csrfOf(visitor),
      username,
      provider: user.provider,
      imageSrc,
      address,
      networks,
      applications: allowed.map((one) => ({ ...one, network: chainName(app, one.chainId) })),
      identities,
      providers,
      sessions,
      session: visitor.sessionUid,
      done: typeof done === 'string' && Object.hasOwn(texts.done, done) ? texts.done[done]! : null,
    })
    return sendPage(reply, 200, { title: texts.title, layout: 'wide', copiesAt: origin, body })
  })

  /** GET /account/signed-in: the redirect address of the sign-in. Its code is for nobody; the session is what counts. */
  server.get<{ Querystring: { error?: unknown; state?: unknown } }>('/account/signed-in', hidden, (request, reply) => {
    const { error, state } = request.query
    if (error !== undefined)
      return sendPage(reply, 200, {
        title: texts.notSignedIn,
        body: shortBody(texts.notSignedIn, null, { href: '/account', text: texts.signIn }),
      })
    return leaveFor(reply, state === 'again' ? '/account?done=again' : '/account')
  })

  /** POST /account/applications/revoke: `clientId`. */
  act('/account/applications/revoke', async ({ visitor: { user }, form }) => {
    await revokeAllowed(app, user, form.clientId ?? '')
    return 'revoked'
  })

  /** POST /account/identities/remove: `identity`, a user id. */
  actFresh('/account/identities/remove', async ({ visitor: { user, sessionUid, cameBy }, form, reply }) => {
    const identity = form.identity ?? ''
    await assertChangeable(db, user.accountId)
    if (!(await unlinkIdentity(db, user, identity))) return 'kept'
    const isOwn = cameBy?.identity === identity
    await endIdentity(app, user, { identity, except: isOwn ? null : sessionUid })
    return isOwn ? showShort(reply, texts.signedOut, texts.unlinkedHere) : 'unlinked'
  })

  /** POST /account/identities/add: `provider`; leaves for it. The way back is that of every sign-in, see login.ts. */
  actFresh('/account/identities/add', async ({ visitor, form, request, reply }) => {
    await assertChangeable(db, visitor.user.accountId)
    const chosen = providers.find(({ name }) => name === form.provider)
    if (chosen === undefined) throw new AppError('unknown_provider', texts.refused.noProvider)
    const { browser, cookie } = browserOf(request, origin)
    const url = await federation.visit(chosen, { interactionUid: linkingOf(visitor), browser, asksAgain: false })
    reply.header('set-cookie', cookie)
    return url
  })

  /** POST /account/sessions/end: `uid`; of this browser or of another. */
  act('/account/sessions/end', async ({ visitor: { user, sessionUid }, form, reply }) => {
    const uid = form.uid ?? ''
    await endSession(db, { userId: user.userId, uid })
    return uid === sessionUid ? showShort(reply, texts.signedOut, texts.signedOutHint) : 'signed_out'
  })

  /** POST /account/sessions/end-others */
  act('/account/sessions/end-others', async ({ visitor: { user, sessionUid } }) => {
    await endSessions(db, { userId: user.userId, except: sessionUid })
    return 'signed_out'
  })

  /** POST /account/sessions/end-everywhere: this browser, the others, and every application. */
  act('/account/sessions/end-everywhere', async ({ visitor: { user }, reply }) => {
    await signOut(db, endIn(app), user.userId)
    return showShort(reply, texts.signedOut, texts.signedOutEverywhere)
  })

  /** GET /account/erase: what is deleted and what stays. */
  server.get('/account/erase', hidden, async (request, reply) => {
    const visitor = await arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(origin, { again: false }))
    const body = eraseBody({ csrf: csrfOf(visitor), firstIdentity: visitor.user.userId })
    return sendPage(reply, 200, { title: texts.eraseTitle, body })
  })

  /** POST /account/erase: `sure`. In this order: what fails half-way can be asked again, and nothing comes back. */
  actFresh('/account/erase', async ({ visitor: { user }, form, request, reply }) => {
    wayBack.set(request, { href: '/account/erase', text: texts.back })
    if (form.sure !== 'yes') throw new AppError('sign_in_refused', texts.notSure)
    await assertChangeable(db, user.accountId)
    await revokeAll(app, user)
    await forgetUses(db, user.accountId)
    await forgetPerson(db, user)
    await signOut(db, endIn(app), user.userId)
    return showShort(reply, texts.erased, texts.erasedHint)
  })

  /** A form of ours, sent by the person who was shown it. `work` says what was done, where to go on, or answers itself. */
  function act(path: string, work: (action: Action) => Promise<string | URL | FastifyReply>): void {
    server.post(path, hidden, async (request, reply) => {
      const visitor = await arrive(request, reply)
      if (visitor === null) return leaveFor(reply, '/account')
      const form = formOf(request)
      if (!secrets.isCsrfTokenRight(purposeOf(visitor), form.csrf))
        throw new AppError('sign_in_refused', texts.refused.notOurForm)
      const outcome = await work({ visitor, form, request, reply })
      app.telemetry.log.info('account_changed', { path })
      if (outcome instanceof URL) return leaveFor(reply, outcome.href)
      return typeof outcome === 'string' ? leaveFor(reply, `/account?done=${outcome}`) : outcome
    })
  }

  function actFresh(path: string, work: (action: Action) => Promise<string | URL | FastifyReply>): void {
    act(path, async (action) => {
      const isFresh = action.visitor.signedInAt + FRESH_SECONDS > app.now() / 1_000
      return isFresh ? work(action) : new URL(ownSignIn(origin, { again: true }))
    })
  }

  async function arrive(request: FastifyRequest, reply: FastifyReply): Promise<Visitor | null> {
    wayBack.set(request, { href: '/account', text: texts.back })
    const visitor = await readVisitor(app, provider, request, reply)
    if (visitor !== null && config.RATE_LIMITS === 'on') spend(limit, visitor.user.accountId, reply)
    return visitor
  }

  /** A network that does not answer hides itself only. */
  async function lookAt(user: User, chainId: number): Promise<OnNetwork> {
    const failed = (error: unknown): null => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return null
    }
    const [holdings, movements, sent] = await Promise.all([
      reads.readHoldings(user, chainId).catch(failed),
      reads.readMovements(user, chainId).catch(failed),
      reads.readSent(user, chainId).catch(failed),
    ])
    return { network: chainName(app, chainId), holdings, movements, sent: sent ?? [] }
  }

  const purposeOf = ({ sessionUid }: Visitor): string => `account ${sessionUid}`
  const csrfOf = (visitor: Visitor): string => secrets.csrfToken(purposeOf(visitor))
}

const leaveFor = (reply: FastifyReply, href: string): FastifyReply =>
  reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer').redirect(href, 303)

const showShort = (reply: FastifyReply, title: string, hint: string | null): FastifyReply =>
  sendPage(reply, 200, { title, body: shortBody(title, hint, null) })

const hidden = { schema: { hide: true } }
