import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Provider } from 'oidc-provider'
import type { App } from '../../app.ts'
import type { AdmissionClass } from '../../http/admission.ts'
import { openLimit, spend } from '../../http/limits.ts'
import { textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { PageError } from '../../texts/page-error.ts'
import { ownSignIn, type ComesBackTo } from '../first-party.ts'
import { formOf } from '../interactions.ts'
import { exportNotice } from './export-body.ts'
import type { Secrets } from '../secrets.ts'
import { isFresh as isFreshAt, provenVisitor, readVisitor, type ProvenVisitor, type Visitor } from '../sessions.ts'

/** Page views of one account, per second and at once: each sends requests to the nodes. */
const PER_SECOND = 2
const BURST = 30

type AccountAction = {
  visitor: Visitor
  form: Record<string, string | undefined>
  request: FastifyRequest
  reply: FastifyReply
}

/** Returns the name of the finished action, the address where to continue, or its own reply. */
type Work = (action: AccountAction) => Promise<string | URL | FastifyReply>

/** Where the sign-in comes back to that a form needs first; it may depend on the form's path. */
type Back = ComesBackTo | ((request: FastifyRequest) => ComesBackTo)

/** The entry to every account page: it finds the visitor and checks that a form is theirs. */
export type AccountDoor = {
  /** Returns the signed-in user; null if there is none: then redirect to a sign-in. @throws address_not_proven */
  arrive(request: FastifyRequest, reply: FastifyReply): Promise<ProvenVisitor | null>
  isFresh(visitor: Visitor, seconds?: number): boolean
  /** Returns HTML for the top of a page: a notice that the user must see on every page. Usually empty. */
  noticeFor(visitor: Visitor, words: Texts): Promise<string>
  csrfOf(visitor: Visitor): string
  /** Handles a form of these pages, sent by the user to whom it was shown. */
  act(path: string, work: Work): void
  /** Handles a form that needs a recent sign-in: without one, the user signs in again first. */
  actFresh(path: string, work: Work, back?: Back, seconds?: number): void
}

/** Opens the entry to the account pages: it verifies visitors, limits their requests and registers their forms. */
export function openAccountDoor(
  server: FastifyInstance,
  app: App,
  { provider, secrets }: { provider: Provider; secrets: Secrets },
): AccountDoor {
  const { config, authOrigin: origin } = app
  const limit = openLimit({ name: 'account', perSecond: PER_SECOND, burst: BURST, now: () => app.clock.wall() })
  const purposeOf = ({ sessionUid }: Visitor): string => `account ${sessionUid}`
  const isFresh = ({ signedInAt }: Visitor, seconds?: number): boolean => isFreshAt(signedInAt, app.clock, seconds)
  return { arrive, isFresh, noticeFor, csrfOf: (visitor) => secrets.csrfToken(purposeOf(visitor)), act, actFresh }

  async function arrive(request: FastifyRequest, reply: FastifyReply): Promise<ProvenVisitor | null> {
    const visitor = await meet(request, reply)
    return visitor === null ? null : provenVisitor(app, visitor)
  }

  /**
   * Returns the signed-in user without verifying the address, so that access can be revoked even if the stored address is wrong.
   */
  async function meet(request: FastifyRequest, reply: FastifyReply): Promise<Visitor | null> {
    const words = textsOf(request)
    request.backLink = { href: '/account', text: words.account.back, words }
    const visitor = await readVisitor(app, provider, request, reply)
    if (visitor !== null && config.RATE_LIMITS === 'on') spend(limit, visitor.user.accountId, reply)
    return visitor
  }

  function act(path: string, work: Work, admission: AdmissionClass = 'vital'): void {
    // Most of these forms revoke access, and only the user can send them.
    server.post(path, { ...hidden, config: { admission } }, async (request, reply) => {
      const visitor = await meet(request, reply)
      if (visitor === null) return leaveFor(reply, '/account')
      const form = formOf(request)
      if (!secrets.isCsrfTokenRight(purposeOf(visitor), form.csrf))
        throw new PageError('sign_in_refused', ({ refused }) => refused.notOurForm)
      const outcome = await work({ visitor, form, request, reply })
      app.telemetry.log.info('account_changed', { path })
      if (outcome instanceof URL) return leaveFor(reply, outcome.href)
      return typeof outcome === 'string' ? leaveFor(reply, `${tabOf(path)}?done=${outcome}`) : outcome
    })
  }

  /**
   * Reads from the signer, not from our database: this page must also show a key export that was requested without this
   * program.
   */
  async function noticeFor({ user }: Visitor, words: Texts): Promise<string> {
    try {
      return exportNotice(words, await app.signer.keyExport({ userId: user.userId }))
    } catch (error) {
      // The page is useful without the notice, and an unavailable signer exports no key.
      app.telemetry.log.warn('key_export_unreadable', {}, error)
      return ''
    }
  }

  function actFresh(path: string, work: Work, back: Back = 'again', seconds?: number): void {
    const comesBackTo = (request: FastifyRequest) => (typeof back === 'function' ? back(request) : back)
    act(
      path,
      async (action) =>
        isFresh(action.visitor, seconds)
          ? work(action)
          : new URL(ownSignIn(origin, { comesBackTo: comesBackTo(action.request) })),
      // Sending waits for a node and the signer.
      back === 'send' ? 'write' : 'vital',
    )
  }
}

/** Returns the page that a form belongs to, where the result is shown. */
const tabOf = (path: string): string =>
  path.startsWith('/account/applications/')
    ? '/account/applications'
    : /^\/account\/(identities|sessions)\//.test(path)
      ? '/account/security'
      : '/account'

export const hidden = { schema: { hide: true } }

export const leaveFor = (reply: FastifyReply, href: string): FastifyReply =>
  reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer').redirect(href, 303)
