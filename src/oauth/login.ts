import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import { OWN_CLIENT } from '../ids.ts'
import type { App } from '../app.ts'
import { AppError } from '../errors.ts'
import { sendPage, textsOf } from '../http/page.ts'
import type { Texts } from '../texts/en.ts'
import { PageError } from '../texts/page-error.ts'
import { assertChangeable } from '../users/freeze.ts'
import { linkIdentity } from '../users/identities.ts'
import { signIn } from '../users/sign-in.ts'
import { browserOf } from './browser.ts'
import { amrOf, cameByNow } from './came-by.ts'
import { cookieNames, readCookie } from './cookies.ts'
import { deniedOver } from './denied.ts'
import type { Federation } from './federation/federation.ts'
import {
  applicationAt,
  asksAgain,
  dropOtherSession,
  findInteraction,
  finish,
  formOf,
  ledOn,
  NEW_SPENDING,
  parameterOf,
  readInteraction,
  requestOf,
  textsAt,
  wantsFresh,
  type Interaction,
} from './interactions.ts'
import { isLinking, linkingVisitor } from './linking.ts'
import { chooserBody } from './pages.ts'
import type { ProviderSettings } from './federation/providers.ts'
import type { Secrets } from './secrets.ts'
import { networkName } from './page-context.ts'

type LoginContext = { provider: Provider; providers: ProviderSettings[]; federation: Federation; secrets: Secrets }
type LoginParams = { uid: string }

/** Registers the sign-in pages: the chooser, the redirect to a provider, and the provider's callback. */
export function loginPages(
  server: FastifyInstance,
  app: App,
  { provider, providers, federation, secrets }: LoginContext,
): void {
  const names = cookieNames(app.authOrigin)
  /** callbacks in progress, by provider, state and browser */
  const underWay = new Map<string, { request: FastifyRequest; next: Promise<string> }>()

  /** GET /login/:uid: shows the chooser, or redirects to the provider that the application named. */
  server.get<{ Params: LoginParams; Querystring: { choose?: string } }>(
    '/login/:uid',
    hidden,
    async (request, reply) => {
      const interaction = await current(request, reply)
      const named = providers.find(({ name }) => name === parameterOf(interaction, 'login_provider'))
      if (named !== undefined && request.query.choose === undefined) return leaveFor(named, interaction, request, reply)
      const application = await applicationAt(app, interaction)
      const { uid } = interaction
      const words = textsAt(interaction, request)
      const network = networkName(app, words, application)
      const body = chooserBody(words, {
        uid,
        csrf: secrets.csrfToken(uid),
        client: network === null ? null : { application: application.name, network, logoUri: application.logoUri },
        providers,
        why: whyAgain(words, interaction),
      })
      const title = network === null ? words.chooser.ownTitle : words.chooser.title(application.name)
      return sendPage(reply, 200, { words, title, body })
    },
  )

  /** POST /login/:uid/cancel: returns to the application, which receives `access_denied`. */
  server.post<{ Params: LoginParams }>('/login/:uid/cancel', hidden, async (request, reply) => {
    const interaction = await current(request, reply)
    checkForm(request, interaction)
    return reply.redirect(
      await finish(interaction, { error: 'access_denied', error_description: 'the user cancelled the sign-in' }),
      303,
    )
  })

  /** POST /login/:uid/:provider: redirects to the provider. */
  server.post<{ Params: LoginParams & { provider: string } }>(
    '/login/:uid/:provider',
    hidden,
    async (request, reply) => {
      const interaction = await current(request, reply)
      checkForm(request, interaction)
      return leaveFor(providerNamed(request.params.provider), interaction, request, reply)
    },
  )

  /**
   * GET /login/callback/:provider: handles the provider's response. The same browser may send it again. While the first
   * is in progress, both get the same result; later it is redirected to where its sign-in continues.
   * Errors: sign_in_expired, sign_in_refused, provider_unavailable.
   */
  server.get<{ Params: { provider: string }; Querystring: Record<string, unknown> }>(
    '/login/callback/:provider',
    {
      ...hidden,
      // Count only failures of a known visit: anyone can request this page.
      onError: async ({ params, query, backLink }, _reply, error) => {
        if (backLink !== undefined && backLink !== null) countFailed(params.provider, query.error ?? error)
      },
    },
    async (request, reply) => {
      const chosen = providerNamed(request.params.provider)
      const { state } = request.query
      if (typeof state !== 'string' || state === '')
        throw new PageError('sign_in_refused', ({ refused }) => refused.noState(chosen.label))
      const browser = readCookie(request.headers.cookie, names.browser)
      const key = JSON.stringify([chosen.name, state, browser])
      const first = underWay.get(key)
      const answered = first ?? { request, next: answer(chosen, { state, browser }, request, reply) }
      underWay.set(key, answered)
      try {
        const next = await answered.next
        const cookie = deniedOver(app.authOrigin, request)
        if (cookie !== null) reply.header('set-cookie', cookie)
        return await reply.redirect(next, 303)
      } catch (error) {
        request.backLink = answered.request.backLink
        throw error
      } finally {
        if (first === undefined) underWay.delete(key)
      }
    },
  )

  /** Handles one callback. @returns where the browser continues */
  async function answer(
    chosen: ProviderSettings,
    at: { state: string; browser: string | null },
    request: FastifyRequest<{ Querystring: Record<string, unknown> }>,
    reply: FastifyReply,
  ): Promise<string> {
    const visit = await federation.receive(chosen, at)
    // `receive` has verified that this browser began the visit, so an error page may link back.
    const owner = isLinking(visit.interactionUid)
      ? await linkingVisitor(app, provider, { chosen, purpose: visit.interactionUid, request, reply })
      : null
    if (visit.isSpent) return owner === null ? ledOn(provider, visit) : '/account'
    const words = textsOf(request)
    request.backLink =
      owner === null ? toChooser(words, visit.interactionUid) : { href: '/account', text: words.account.back, words }
    if (request.query.error === 'access_denied')
      throw new PageError('sign_in_refused', ({ refused }) => refused.cancelled(chosen.label))
    const { profile, authTime } = await federation.identify(chosen, visit, new URL(request.url, app.authOrigin))
    if (owner !== null) {
      await assertChangeable(app.db, owner.user.accountId)
      const outcome = await linkIdentity(app, owner.user, profile)
      return `/account/security?done=${outcome}`
    }
    const interaction = await findInteraction(provider, visit.interactionUid)
    if (wantsFresh(interaction) && authTime !== null && authTime < visit.leftAt - CLOCK_SLACK_SECONDS)
      throw new PageError('sign_in_refused', ({ refused }) => refused.notAgain(chosen.label))
    const { userId } = await signIn(app, profile)
    await dropOtherSession(app, interaction, userId)
    app.telemetry.signIns.inc({ provider: chosen.name })
    app.telemetry.log.info('signed_in', { provider: chosen.name })
    const login = {
      accountId: userId,
      remember: true,
      ts: signedInAt(app, authTime),
      amr: amrOf(cameByNow(app.clock, profile)),
    }
    // A sign-in also answers `select_account`, if that was asked.
    return finish(interaction, { login, select_account: {} })
  }

  /**
   * POST /login/callback/:provider: handles the response of a provider that posts it. Another site's POST comes without
   * our cookies (SameSite=Lax), so the browser is redirected to the same address by GET, which includes them.
   */
  server.post<{ Params: { provider: string } }>('/login/callback/:provider', hidden, async (request, reply) => {
    const chosen = providerNamed(request.params.provider)
    if (chosen.parameters.response_mode !== 'form_post')
      throw new PageError('sign_in_refused', ({ refused }) => refused.notThisWay(chosen.label))
    return reply
      .header('cache-control', 'no-store')
      .header('referrer-policy', 'no-referrer')
      .redirect(`/login/callback/${chosen.name}?${answerOf(formOf(request)).toString()}`, 303)
  })

  const current = (request: FastifyRequest<{ Params: LoginParams }>, reply: FastifyReply): Promise<Interaction> =>
    readInteraction(app, provider, {
      request: request.raw,
      response: reply.raw,
      uid: request.params.uid,
      name: 'login',
    })

  function checkForm(request: FastifyRequest, { uid }: Interaction): void {
    if (!secrets.isCsrfTokenRight(uid, formOf(request).csrf))
      throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
  }

  /**
   * Counts a failed sign-in.
   * @param why  the thrown error, or the provider's `error`: of its values, only `access_denied` has a label of its own
   */
  function countFailed(name: string, why: unknown): void {
    if (!providers.some((one) => one.name === name)) return
    const code = why instanceof AppError ? why.code : 'internal_error'
    const reason = typeof why !== 'string' ? code : why === 'access_denied' ? 'cancelled' : 'sign_in_refused'
    app.telemetry.signInsFailed.inc({ provider: name, reason })
  }

  function providerNamed(name: string): ProviderSettings {
    const found = providers.find((one) => one.name === name)
    if (found === undefined) throw new PageError('unknown_provider', ({ refused }) => refused.noProvider)
    return found
  }

  async function leaveFor(
    chosen: ProviderSettings,
    interaction: Interaction,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> {
    const { uid } = interaction
    request.backLink = toChooser(textsAt(interaction, request), uid)
    const { browser, cookie } = browserOf(request, app.authOrigin)
    const loginHint = parameterOf(interaction, 'login_hint')
    const url = await federation.visit(chosen, {
      interactionUid: uid,
      browser,
      request: requestOf(interaction),
      asksAgain: asksAgain(interaction),
      ...(loginHint === null ? {} : { loginHint }),
    })
    return reply
      .header('set-cookie', cookie)
      .header('cache-control', 'no-store')
      .header('referrer-policy', 'no-referrer')
      .redirect(url.href, 303)
  }
}

const hidden = { schema: { hide: true } }

/** Returns why a user who may already be signed in must sign in again; null if no reason is shown. */
function whyAgain({ chooser: { why } }: Texts, interaction: Interaction): string | null {
  if (interaction.prompt.reasons.includes(NEW_SPENDING)) return why.spends
  const wanted = parameterOf(interaction, 'client_id') === OWN_CLIENT ? parameterOf(interaction, 'state') : null
  if (wanted?.startsWith('approve.')) return why.approve
  return wanted === 'send' || wanted === 'export' || wanted === 'again' ? why[wanted] : null
}

const toChooser = (words: Texts, uid: string) => ({ href: `/login/${uid}?choose`, text: words.chooser.back, words })

/** Maximum difference between a provider's clock and ours, in seconds. */
const CLOCK_SLACK_SECONDS = 60

/** Returns when the user proved their identity, in seconds since 1970: as the provider says, but at the latest now. */
const signedInAt = (app: App, authTime: number | null): number => {
  const now = Math.floor(app.clock.wall() / 1_000)
  return Math.min(authTime ?? now, now)
}

/** Picks the needed fields of a posted response. Of personal data only the name, because URLs are written to logs. */
function answerOf(form: Record<string, string | undefined>): URLSearchParams {
  const answer = new URLSearchParams()
  for (const key of ['state', 'code', 'error', 'iss']) if (form[key] !== undefined) answer.set(key, form[key])
  const name = nameIn(form.user)
  if (name !== null) answer.set('name', name)
  return answer
}

/**
 * Returns the name that Apple sends with a user's first response. The browser could have changed it: it is only a
 * display name.
 */
function nameIn(user: string | undefined): string | null {
  if (user === undefined) return null
  try {
    const { name } = JSON.parse(user) as { name?: { firstName?: unknown; lastName?: unknown } }
    const parts = [name?.firstName, name?.lastName].filter((part) => typeof part === 'string' && part.isWellFormed())
    return parts.join(' ').trim().slice(0, 255) || null
  } catch {
    // Not JSON: a user without a name may sign in as well.
    return null
  }
}
