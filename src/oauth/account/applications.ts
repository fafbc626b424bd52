import type { FastifyInstance } from 'fastify'
import { html } from 'ghtml'
import type { App } from '../../app.ts'
import { countWaiting } from '../../approvals/decide.ts'
import { sendPage, textsOf } from '../../http/page.ts'
import type { Texts } from '../../texts/en.ts'
import { ownSignIn } from '../first-party.ts'
import { chainName } from '../page-context.ts'
import { meaningOf } from '../pages.ts'
import { hidden, leaveFor, type AccountDoor } from './access.ts'
import { SPENDS } from '../scopes.ts'
import type { Secrets } from '../secrets.ts'
import type { Visitor } from '../sessions.ts'
import { listAllowed, revokeAllowed, type AllowedApplication, type RevokedConsent } from './allowed.ts'
import { doneHtml, form } from './body.ts'
import { isUndoOpen } from './open-undo.ts'
import { inTabs } from './tabs.ts'
import { giveAgain, readUndo, writeUndo } from './undo.ts'

/** Registers the page of the applications with access, and the form that revokes it. */
export function applicationsPage(
  server: FastifyInstance,
  app: App,
  { door, secrets }: { door: AccountDoor; secrets: Secrets },
): void {
  /** GET /account/applications: `undo`, the text of a revocation that can be undone. */
  server.get<{ Querystring: Record<string, unknown> }>('/account/applications', hidden, async (request, reply) => {
    const visitor = await door.arrive(request, reply)
    if (visitor === null) return leaveFor(reply, ownSignIn(app.authOrigin, { comesBackTo: 'first' }))
    const words = textsOf(request)
    const { accountId, userId } = visitor.user
    const [allowed, waiting] = await Promise.all([
      listAllowed(app, { accountId, userId }),
      countWaiting(app, accountId),
    ])
    const claims = readUndo(app, secrets, { accountId, undo: request.query.undo })
    const canUndo = claims !== null && (await isUndoOpen(app.db, claims))
    const page = applicationsBody(words, {
      undo: canUndo ? String(request.query.undo) : null,
      operator: server.brand.name,
      csrf: door.csrfOf(visitor),
      waiting,
      applications: allowed.map((one) => ({ ...one, network: chainName(app, words, one.chainId) })),
    })
    const { applications: title } = words.account
    const body = `${await door.noticeFor(visitor, words)}${doneHtml(words, request.query)}${page}`
    return sendPage(reply, 200, { words, title, ...inTabs(words, 'applications'), hasScript: app.authOrigin, body })
  })

  /**
   * POST /account/applications/revoke: `clientId`. The revocation acts at once. The page then offers to give the same
   * consent again, unless it includes spending and the sign-in is no longer recent.
   */
  door.act('/account/applications/revoke', async ({ visitor, form: sent }) => {
    const { accountId } = visitor.user
    const clientId = sent.clientId ?? ''
    const revoked = await revokeAllowed(app, visitor.user, clientId)
    if (revoked === null || !mayGive(visitor, revoked)) return 'revoked'
    const undo = writeUndo(app, secrets, { ...revoked, accountId, clientId })
    return new URL(
      `${app.authOrigin}/account/applications?${new URLSearchParams({ done: 'revoked', undo }).toString()}`,
    )
  })

  /** POST /account/applications/undo: `undo`. Gives a consent again that was revoked a moment ago. */
  door.act('/account/applications/undo', async ({ visitor, form: sent }) => {
    const claims = readUndo(app, secrets, { accountId: visitor.user.accountId, undo: sent.undo })
    if (claims === null || !mayGive(visitor, claims)) return 'undo_over'
    return (await giveAgain(app, claims)) ? 'undone' : 'undo_over'
  })

  /** Returns whether the visitor may give a consent now: spending needs a recent sign-in, as on the consent page. */
  const mayGive = (visitor: Visitor, { permissions }: RevokedConsent): boolean =>
    !permissions.includes(SPENDS) || door.isFresh(visitor)
}

type ShownApplication = AllowedApplication & { network: string }
type Applications = {
  csrf: string
  waiting: number
  applications: ShownApplication[]
  /** text of a revocation that can be undone */
  undo: string | null
  /** name of the operator, who runs the first-party applications */
  operator: string
}

/** Renders what each application may do. @param waiting  number of requests that wait for the user’s approval */
export function applicationsBody(words: Texts, { csrf, waiting, applications, undo, operator }: Applications): string {
  const texts = words.account
  return html`
    !${undo === null ? '' : form('/account/applications/undo', csrf, { undo }, html`<button class="button quiet">${words.wallet.undo}</button>`)}
    <h1>${texts.applications}</h1>
    <p class="go">
      <a href="/account/approvals">${waiting === 0 ? words.approvals.inbox : words.approvals.link(waiting)}</a>
    </p>
    !${
      applications.length === 0
        ? html`<section class="card"><p class="muted">${texts.noApplications}</p></section>`
        : applications.map((one) => applicationCard(words, { csrf, operator }, one)).join('')
    }
  `
}

function applicationCard(
  words: Texts,
  { csrf, operator }: Pick<Applications, 'csrf' | 'operator'>,
  { clientId, name, network, permissions, signIns, isFirstParty }: ShownApplication,
): string {
  const texts = words.account
  const meanings = permissions.map((permission) => meaningOf(words, permission))
  const may = [words.consent.always, ...meanings.filter((meaning) => meaning !== undefined)]
  return html`<section class="card stack" aria-label="${name}">
    <div class="row spread">
      <h2>${name}</h2>
      <span class="badge">${network}</span>
    </div>
    !${isFirstParty ? html`<p class="muted"><small>${words.wallet.ownApplication(operator)}</small></p>` : ''}
    <ul class="grants">
      !${may.map((meaning) => html`<li>${meaning}</li>`).join('')}
    </ul>
    <div class="row spread">
      <p class="muted"><small>${texts.signIns(signIns)}</small></p>
      !${form('/account/applications/revoke', csrf, { clientId }, html`<button class="button quiet danger" aria-label="${`${texts.revoke}: ${name}`}">${texts.revoke}</button>`)}
    </div>
  </section>`
}
